"""The `auditkit` command: one Typer application, each command in the file of its name."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from auditkit.cli import audit, doctor, init, probe, ticket

app = typer.Typer(
    name="auditkit",
    help="Run probes against the gradient collectors of a PyTorch checkout, and track what reproduced.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="Example: auditkit audit path/to/checkout@v1.2",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from auditkit import __version__

        typer.echo(f"auditkit {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run probes against the gradient collectors of a PyTorch checkout, and track what reproduced."""


app.command("audit", epilog=audit.EXAMPLE)(audit.audit)
app.command("init", epilog=init.EXAMPLE)(init.init)
app.add_typer(probe.app)
app.add_typer(ticket.app)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)


def main() -> None:
    """Run the command line; Ctrl-C ends with 130 after everything it started is gone."""
    try:
        app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was filed\n")
        raise SystemExit(130) from None
    except BrokenPipeError:
        # The reader of our output has left: not our error, and no traceback for it.
        sys.stderr.close()
        raise SystemExit(1) from None
