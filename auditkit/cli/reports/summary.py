"""`auditkit report summary`: the page of all tickets, counted."""

from __future__ import annotations

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, run_or_exit, say_json
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import ForceOption, OutputOption, check_output, end_if_broken, put_document


@app.command(epilog="Example: auditkit report summary --output tickets/SUMMARY.md --force")
@run_or_exit
def summary(
    tickets: TicketsOption = None, output: OutputOption = None, force: ForceOption = False, as_json: JsonOption = False
) -> None:
    """Write the summary page of all tickets: counts, bars, what is due, what waits for an answer.

    Exit 2 where a file of the folder cannot be read: its ticket is in no count.
    """
    from auditkit.workflows.report_pages import summary_page

    check_output(output, force, as_json)
    repository = open_repository(tickets)
    page = summary_page(repository)
    if as_json:
        say_json({**page.report.to_json(), "broken": [entry.to_json() for entry in page.broken]})
    else:
        put_document(page.document, output, force)
    end_if_broken(page.broken, repository.folder)
