"""`auditkit report summary`: the page of all tickets, counted."""

from __future__ import annotations

from auditkit.cli.common import TicketsOption, open_repository, run_or_exit
from auditkit.cli.option_groups import with_groups
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import OutputOptions


@app.command(epilog="Example: auditkit report summary --output tickets/SUMMARY.md --force")
@run_or_exit
@with_groups
def summary(tickets: TicketsOption = None, *, out: OutputOptions) -> None:
    """Write the summary page of all tickets: counts, bars, what is due, what waits for an answer.

    Exit 2 where a file of the folder cannot be read: its ticket is in no count.
    """
    from auditkit.workflows.reports.pages import summary_page

    out.check()
    repository = open_repository(tickets)
    out.put_page(summary_page(repository), repository.folder)
