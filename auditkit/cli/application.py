"""The Typer application behind `auditkit`: each command is in the file of its name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from auditkit.cli.output import say_error

_PANELS = {
    "Check code": "audit run init probe doctor",
    "Compare revisions": "compare",
    "Check many at once": "sweep",
    "Keep track": "ticket report export",
    "For programs": "mcp schema",
}
_TICKET_RUNS = ("new", "verify", "fix")
"""The verbs of `ticket` that run probes: their options take as long to load as another verb to run."""


class _Group(TyperGroup):
    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """As Typer's; with --json wrong usage is one JSON document on stdout, too."""
        words = sys.argv[1:] if args is None else args
        run = functools.partial(super().main, args, prog_name, complete_var)
        if not standalone_mode or "--json" not in words:
            return run(standalone_mode, windows_expand_args, **extra)
        try:
            code = run(False, windows_expand_args, **extra)
        except typer.Abort:
            code = 1
        except Exception as error:
            # Typer's own base of these has another name, and another module, in each of its versions.
            if not hasattr(error, "format_message"):
                raise
            context = getattr(error, "ctx", None)
            error.show()  # type: ignore[attr-defined]
            say_error(error.format_message(), f"{context.command_path} --help" if context else None, error.exit_code)  # type: ignore[attr-defined]
            code = error.exit_code  # type: ignore[attr-defined]
        sys.exit(code if isinstance(code, int) else 0)


def application(words: Sequence[str] = ()) -> typer.Typer:
    """Return the application with the command that `words` begin with; with all commands if they name none."""
    app = typer.Typer(
        name="auditkit",
        cls=_Group,
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
