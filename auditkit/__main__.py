"""`python -m auditkit` is the `auditkit` command."""

from auditkit.cli.main import main

if __name__ == "__main__":
    main()
