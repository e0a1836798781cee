"""`auditkit report`: a saved run, one file of it, or a folder of tickets, as a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import TicketsOption, run_or_exit, ticket_folder
from auditkit.cli.export import read_saved_run
from auditkit.cli.options import choose
from auditkit.cli.output import complain, say

EXAMPLE = "Example: auditkit report run.json --file trainer/stats.py --output stats.html"
FORMATS = ("markdown", "html")
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="markdown or html; default: by the name of --output."),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, replacing the file.")
]


@run_or_exit
def report(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN.json]", help="A run that `audit --save` or `--json` wrote.")
    ] = None,
    file: Annotated[
        str, typer.Option("--file", metavar="PATH", help="Only what concerns this file of the checkout.")
    ] = "",
    tickets: TicketsOption = None,
    form: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Write a page of a saved run, or of a folder of tickets.

    Without RUN.json the page is of the tickets in --tickets. Exits 0 when the page is written, 2 if a ticket is not
    valid, 3 or 5 if the run has neither a finding nor a result.
    """
    from auditkit.audit.report import ReportRequest, report_code
    from auditkit.audit.report import report as make
    from auditkit.probing.run.configuration import read_configuration

    is_html = wants_html(form, output)
    if run is None:
        _of_tickets(tickets, is_html, output)
        return
    saved = read_saved_run(run)
    configuration = read_configuration(None, None)
    folder = tickets or (Path("tickets") if Path("tickets").is_dir() else None)
    put(make(ReportRequest(saved, file.removeprefix("./"), folder, configuration), is_html), output)
    raise typer.Exit(int(report_code(saved)))


def _of_tickets(tickets: Path | None, is_html: bool, output: Path | None) -> None:
    from auditkit.reports.html.page import html_page
    from auditkit.reports.page import markdown_page
    from auditkit.reports.tickets import read_tickets, tickets_page

    folder = ticket_folder(tickets)
    documents, broken = read_tickets(folder)
    page = tickets_page(documents, broken, folder.folder.resolve().name)
    put(html_page(page) if is_html else markdown_page(page), output)
    for error in broken:
        complain(f"error: {error.message}")
    if broken:
        raise typer.Exit(2)


def wants_html(form: str | None, output: Path | None) -> bool:
    """Whether the page is to be HTML: as `--format` says, else as the file is named. Raises BadInputError."""
    if form is None:
        return output is not None and output.suffix.lower() in (".html", ".htm")
    return choose(FORMATS.index, form, FORMATS, "format") == 1


def put(document: bytes, output: Path | None) -> None:
    """Write the document into the file and name that on stderr, or print it. Raises StoreConflictError."""
    from auditkit.errors import BadInputError
    from auditkit.files import ensure_writable, write_file

    if output is None:
        say(document.decode("utf-8").removesuffix("\n"))
        return
    if output.is_dir():
        raise BadInputError(f"{output} is a folder", "name a file: --output FILE")
    ensure_writable(output.parent)
    write_file(output, document)
    complain(f"wrote {output}")
