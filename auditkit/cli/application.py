"""The Typer application behind `auditkit`: each command is in the file of its name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

_PANELS = {
    "Check code": "audit run init probe doctor",
    "Compare revisions": "compare",
    "Check many at once": "sweep",
    "Keep track": "ticket report export",
    "For programs": "mcp schema",
}
_TICKET_RUNS = ("new", "verify", "fix")
"""The verbs of `ticket` that run probes: their options take as long to load as another verb to run."""


def application(words: Sequence[str] = ()) -> typer.Typer:
    """Return the application with the command that `words` begin with; with all commands if they name none."""
    app = typer.Typer(
        name="auditkit",
        help="Find what breaks in PyTorch code that measures, clips and logs gradients, and track it.",
        epilog="Example: auditkit audit ../trainer",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    known = {name: panel for panel, names in _PANELS.items() for name in names.split()}
    for name in words[:1] if words and words[0] in known else known:
        module = import_module(f"auditkit.cli.{name}")
        if name == "ticket" and (len(words) < 2 or words[1] in _TICKET_RUNS or words[1].startswith("-")):
            import_module("auditkit.cli.ticket_runs")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name, rich_help_panel=known[name])
        else:
            app.command(name, epilog=module.EXAMPLE, rich_help_panel=known[name])(getattr(module, name))
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
