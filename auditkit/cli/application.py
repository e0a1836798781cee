"""The Typer application behind `auditkit`: each command is in the file of its name."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli import audit, bisect, compare, doctor, export, init, mcp, probe, reports, run, sweep, ticket
from auditkit.cli.help_pages import Commands

_COMMANDS = {
    "Ask the code": "audit run init probe doctor",
    "Compare revisions": "compare bisect",
    "Ask many at once": "sweep",
    "Keep track": "ticket report export",
    "For agents": "mcp",
}
app = Commands(
    "auditkit",
    "Find what breaks in the code of a PyTorch checkout that measures, clips and logs gradients, and track it.",
    "auditkit audit ../trainer",
    _COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
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
app.command("run", epilog=run.EXAMPLE)(run.run)
app.command("init", epilog=init.EXAMPLE)(init.init)
app.command("compare", epilog=compare.EXAMPLE)(compare.compare)
app.command("bisect", epilog=bisect.EXAMPLE)(bisect.bisect)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
app.command("export", epilog=export.EXAMPLE)(export.export)
app.command("mcp", epilog=mcp.EXAMPLE)(mcp.mcp)
app.add_typer(probe.app)
app.add_typer(ticket.app)
app.add_typer(reports.app)
app.add_typer(sweep.app)
