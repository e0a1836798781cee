"""The `auditkit report` application: its commands are in the files beside this one."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="report",
    help="Write what was found as a document for people: of an audit, of a batch, of all tickets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Example: auditkit report audit path/to/checkout@v1.2 --tickets tickets",
)
