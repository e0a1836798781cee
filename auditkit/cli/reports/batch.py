"""`auditkit report batch`: the page of one batch of tickets."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, run_or_exit, say_json
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import ForceOption, OutputOption, check_output, end_if_broken, put_document


@app.command(epilog="Example: auditkit report batch 7 --agent pytorch --output tickets/batch7-pytorch.md")
@run_or_exit
def batch(
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", min=0, help="The batch.", show_default="the latest")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only tickets of this agent: pytorch, codereview, drl, or a code."),
    ] = None,
    tickets: TicketsOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the page of a batch: its tickets file by file, what cuts across, what the reviewers say, what to do first.

    Exit 2 where a file of the folder cannot be read: its ticket is in no count.
    """
    from auditkit.workflows.report_pages import batch_page

    check_output(output, force, as_json)
    repository = open_repository(tickets)
    page = batch_page(repository, number, agent)
    if as_json:
        say_json({**page.report.to_json(), "broken": [entry.to_json() for entry in page.broken]})
    else:
        put_document(page.document, output, force)
    end_if_broken(page.broken, repository.folder)
