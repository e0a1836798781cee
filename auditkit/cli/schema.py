"""`auditkit schema`: the JSON schema of what a command prints with --json."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import run_or_exit
from auditkit.cli.options import choose
from auditkit.cli.output import say_json

EXAMPLE = "Example: auditkit schema run"


@run_or_exit
def schema(
    name: Annotated[str, typer.Argument(metavar="NAME", help="run, compare, brief or error.")],
) -> None:
    """Print the JSON schema of a document that --json prints."""
    from auditkit.model.schemas import NAMES
    from auditkit.model.schemas import schema as schema_of

    choose(name, NAMES, "document")
    say_json(schema_of(name))
