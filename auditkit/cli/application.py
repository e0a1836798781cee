"""The Typer application behind `auditkit`: each command is in the file of its name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from auditkit.cli.help_pages import Commands

_COMMANDS = {
    "Ask the code": "audit run init probe doctor",
    "Compare revisions": "compare",
    "Ask many at once": "sweep",
    "Keep track": "ticket report export",
    "For agents": "mcp",
}
_MODULES = {
    "audit": "audit", "run": "run", "init": "init", "compare": "compare", "doctor": "doctor", "export": "export",
    "mcp": "mcp", "probe": "probe", "ticket": "ticket", "report": "reports", "sweep": "sweep",
}  # fmt: skip
"""The module of each command; those with an `app` are groups."""
_TICKET_RUNS = ("new", "verify", "fix")
"""The verbs of `ticket` that run probes: their options take as long to load as another verb to run."""


def application(words: Sequence[str] = ()) -> Commands:
    """Return the application with the command that `words` begin with; with all commands if they name none."""
    app = Commands(
        "auditkit",
        "Find what breaks in the code of a PyTorch checkout that measures, clips and logs gradients, and track it.",
        "auditkit audit ../trainer",
        _COMMANDS,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in words[:1] if words and words[0] in _MODULES else _MODULES:
        module = import_module(f"auditkit.cli.{_MODULES[name]}")
        if name == "ticket" and (len(words) < 2 or words[1] in _TICKET_RUNS or words[1].startswith("-")):
            import_module("auditkit.cli.ticket_runs")
        if hasattr(module, "app"):
            app.add_typer(module.app)
        else:
            app.command(name, epilog=module.EXAMPLE)(getattr(module, name))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from auditkit import __version__

        typer.echo(f"auditkit {__version__}")
        raise typer.Exit()


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run probes against the gradient collectors of a PyTorch checkout, and track what reproduced."""
