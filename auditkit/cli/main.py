"""The `auditkit` command: three commands at once, all others through Typer."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. A reader that has left (`| head -1`) changes no exit code."""
    from auditkit.cli.output import complain, discard

    try:
        _run()
    except OSError as error:
        # Output that cannot be written (a full disk), or a file that no part of ours expected to fail.
        complain(f"error: {error.filename or 'the output'}: {error.strerror}")
        from auditkit.errors import ExitCode

        raise SystemExit(int(ExitCode.BAD_INPUT)) from None
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                discard(stream)


def _run() -> None:
    from auditkit.cli.views.quick_start import run_at_once

    code = run_at_once(sys.argv[1:])
    if code is not None:
        raise SystemExit(code)
    from auditkit.cli.application import app

    app()
