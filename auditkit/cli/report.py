"""`auditkit report`: a saved run, one file of it, or a folder of tickets, as a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import TicketsOption, end_if_broken, option, run_or_exit, ticket_folder
from auditkit.cli.export import read_saved_run
from auditkit.cli.output import complain, say
from auditkit.errors import BadInputError

if TYPE_CHECKING:
    from auditkit.reports.page import Page

EXAMPLE = "Example: auditkit report run.json --file trainer/stats.py --output stats.html"
OutputOption = Annotated[Path | None, option("--output -o", "Write there: HTML to *.html, else Markdown.", "FILE")]


@run_or_exit
def report(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN.json]", help="A run that `audit --save` or `--json` wrote.")
    ] = None,
    file: Annotated[str, option("--file", "Only what concerns this file of the checkout.", "PATH")] = "",
    tickets: TicketsOption = None,
    output: OutputOption = None,
) -> None:
    """Write a page of a saved run, or of a folder of tickets.

    Without RUN.json the page is of the tickets in --tickets. Exits 0 when the page is written, 2 if a ticket is not
    valid, 3 or 5 if the run has neither a finding nor a result.
    """
    from auditkit.audit.report import report as make

    if run is None:
        _of_tickets(tickets, output)
        return
    saved = read_saved_run(run)
    folder = ticket_folder(tickets) if tickets or Path("tickets").is_dir() else None
    page, code = make(saved, file.removeprefix("./"), folder)
    put(page, output)
    raise typer.Exit(int(code))


def _of_tickets(tickets: Path | None, output: Path | None) -> None:
    from auditkit.reports.tickets import tickets_page

    folder = ticket_folder(tickets)
    documents, broken = folder.documents()
    put(tickets_page(documents, broken, folder.folder.resolve().name), output)
    end_if_broken(broken)


def put(page: Page, output: Path | None) -> None:
    """Write the page into the file and name that on stderr, or print it as Markdown. Raises StoreConflictError."""
    from auditkit.files import ensure_writable, write_file
    from auditkit.reports.html.page import html_page
    from auditkit.reports.page import markdown_page

    if output is None:
        say(markdown_page(page).decode("utf-8").removesuffix("\n"))
        return
    if output.is_dir():
        raise BadInputError(f"{output} is a folder", "name a file: --output FILE")
    ensure_writable(output.parent)
    write_file(output, html_page(page) if output.suffix.lower() in (".html", ".htm") else markdown_page(page))
    complain(f"wrote {output}")
