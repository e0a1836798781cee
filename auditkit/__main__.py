"""`python -m auditkit` is the `auditkit` command."""

try:
    from auditkit.cli.main import main
except KeyboardInterrupt:
    raise SystemExit(130) from None

if __name__ == "__main__":
    main()
