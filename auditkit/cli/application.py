"""The Typer application behind `auditkit`: each command is in the file of its name."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli import audit, bisect, compare, doctor, init, probe, reports, ticket
from auditkit.cli.output import wants_colour

app = typer.Typer(
    name="auditkit",
    help="Run probes against the gradient collectors of a PyTorch checkout, and track what reproduced.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    # Boxes are for a terminal; a pipe gets plain text, and does not wait for Rich to load.
    rich_markup_mode="rich" if wants_colour() else None,
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
app.command("compare", epilog=compare.EXAMPLE)(compare.compare)
app.command("bisect", epilog=bisect.EXAMPLE)(bisect.bisect)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
app.add_typer(probe.app)
app.add_typer(ticket.app)
app.add_typer(reports.app)
