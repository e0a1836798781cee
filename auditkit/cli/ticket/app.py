"""The `auditkit ticket` application: its commands are in the files beside this one."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="ticket",
    help="List, show and move the tickets of a folder.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Example: auditkit ticket list --status open --severity P1",
)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A ticket id, such as B7-PT-01.")]
