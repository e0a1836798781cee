"""`auditkit report batch`: the page of one batch of tickets."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import TicketsOption, open_repository, run_or_exit
from auditkit.cli.option_groups import with_groups
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import OutputOptions


@app.command(epilog="Example: auditkit report batch 7 --agent pytorch --output tickets/batch7-pytorch.md")
@run_or_exit
@with_groups
def batch(
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", min=0, help="The batch.", show_default="the latest")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only tickets of this agent: pytorch, codereview, drl, or a code."),
    ] = None,
    tickets: TicketsOption = None,
    *,
    out: OutputOptions,
) -> None:
    """Write the page of a batch: its tickets file by file, what cuts across, what the reviewers say, what to do first.

    Exit 2 where a file of the folder cannot be read: its ticket is in no count.
    """
    from auditkit.workflows.reports.pages import batch_page

    out.check()
    repository = open_repository(tickets)
    out.put_page(batch_page(repository, number, agent), repository.folder)
