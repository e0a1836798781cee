"""The commands of `auditkit report`: each document of a run, of a comparison, or of the tickets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import TicketsOption, ticket_folder, write_or_exit
from auditkit.cli.comparison import CompareOptions, read_saved_comparison, read_saved_run
from auditkit.cli.completion import ticket_ids
from auditkit.cli.help_pages import Commands
from auditkit.cli.options import ConfigOption, Words
from auditkit.cli.output import complain
from auditkit.cli.reports.output import FileOptions, OutputOptions
from auditkit.cli.reports.run_source import ReportOptions, end

app = Commands(
    "report",
    "Write a document of an audit, of a change or of tickets.",
    "auditkit report audit ../trainer@v1.2 --output audit.md",
)


@app.command(epilog="Example: auditkit report audit ../trainer@v1.2 --run run.json --output audit.md")
@write_or_exit
def audit(*, options: ReportOptions, out: OutputOptions) -> None:
    """Write an audit report: findings with code and figures.

    Audits CHECKOUT now, or takes a run that was saved with `auditkit audit --json`. It files nothing: tickets
    are read for their status and severity. Exit 0 when it is written, 3 or 5 where the run has no finding and
    questions without an answer.
    """
    from auditkit.workflows.reports.audit_report import render_audit_report, report_of

    out.check()
    request = options.request()
    out.put(report_of(request), render_audit_report)
    end(request.run)


@app.command("tickets", epilog="Example: auditkit report tickets --batch 7 --output batch7.md")
@write_or_exit
def of_tickets(
    tickets: TicketsOption = None,
    batch: Annotated[int | None, typer.Option("--batch", metavar="N", min=0, help="Only this batch.")] = None,
    html_page: Annotated[bool, typer.Option("--html", help="Write a page for a browser.")] = False,
    *,
    out: OutputOptions,
) -> None:
    """Write the page of a folder of tickets: counts, what is open, what the reviewers say.

    Exit 2 if a file of the folder is not a valid ticket: it is in no count.
    """
    from auditkit.cli.output import say_json
    from auditkit.tickets.report import html_report, json_report, markdown_report, read_tickets

    out.check()
    folder = ticket_folder(tickets)
    documents, broken = read_tickets(folder, batch)
    name = folder.folder.resolve().name
    if out.as_json:
        say_json(json_report(documents, broken))
    else:
        out.write(html_report(documents, broken, name) if html_page else markdown_report(documents, broken, name))
    for error in broken:
        complain(f"error: {error.message}")
    if broken:
        raise typer.Exit(2)


@app.command("code-audit", epilog="Example: auditkit report code-audit ../trainer --since v1.1 --output code-audit.md")
@write_or_exit
def code_audit(
    *,
    options: ReportOptions,
    since: Annotated[
        str | None, typer.Option("--since", metavar="REV", help="Tell what changed in each function from there on.")
    ] = None,
    out: OutputOptions,
) -> None:
    """Write a code audit: findings with risk, impact and advice.

    It has its scope, numbered findings, what is no issue, and fixes.

    Audits CHECKOUT now, or takes a run that was saved with `auditkit audit --json`. It files nothing: tickets
    are read for their status. Exit 0 when it is written, 3 or 5 where the run has no finding and questions
    without an answer.
    """
    from auditkit.workflows.reports.audit_report import code_audit_of, render_code_audit

    out.check()
    request = options.request()
    out.put(code_audit_of(request, since), render_code_audit)
    end(request.run)


@app.command(epilog="Example: auditkit report html run.json --output audit.html")
@write_or_exit
def html(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN.json [HEAD.json]]", help="A finished run, as `audit --json` printed it; or two."),
    ] = None,
    tickets: TicketsOption = None,
    pictures: Annotated[
        Path | None,
        typer.Option("--pictures", metavar="DIR", help="Write the pictures there as well, an SVG file each."),
    ] = None,
    config: ConfigOption = None,
    *,
    out: FileOptions,
) -> None:
    """Write a page for a browser: pictures, code and fixes.

    It is of one run, or of two: what changed from the first to the second. The page is one file that needs no network
    and no scripts. Exits 0 when it is written, whatever the run found.
    """
    from auditkit.errors import BadInputError
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.reports.html import run_html, write_pictures

    out.check()
    if not runs or len(runs) > 2:
        raise BadInputError("name one run, or two", "auditkit report html BASE.json HEAD.json")
    *before, run = map(read_saved_run, runs)
    out.write(run_html(run, read_configuration(config, None), tickets, before[0] if before else None))
    if pictures is not None:
        complain(f"wrote {len(write_pictures(run, pictures))} pictures in {pictures}")


@app.command(
    epilog="Example: auditkit report review ../trainer v1.1 v1.2 --require 'syncs_grow_with_tensors: fixed' "
    "--output review.md"
)
@write_or_exit
def review(
    *,
    options: CompareOptions,
    comparison: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A comparison, as `compare --json` printed it.")
    ] = None,
    ticket: Annotated[
        str | None,
        typer.Option("--ticket", metavar="ID", help="Its findings must be gone.", autocompletion=ticket_ids),
    ] = None,
    tickets: TicketsOption = None,
    require: Annotated[
        Words,
        typer.Option(
            "--require",
            metavar="TEXT",
            help="PROBE: fixed, PROBE: not_reproduced, PROBE law = O(1), answers: same (may be repeated).",
        ),
    ] = None,
    reviewer: Annotated[str, typer.Option("--reviewer", metavar="NAME", help="Who reviews.")] = "",
    plan: Annotated[str, typer.Option("--plan", metavar="TEXT", help="What the change was planned in.")] = "",
    out: OutputOptions,
) -> None:
    """Write a review of a change: what it promised, what it did.

    Requirements, equal answers, before and after, and a verdict.

    What the commits' messages claim of syncs, launches, memory, overflow and answers is held against the
    measurements, too. Exit 0 when approved, 1 when it needs work or is rejected.
    """
    from auditkit.errors import BadInputError
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.reports.implementation_review import Assessment, ReviewRequest, render_review
    from auditkit.workflows.reports.implementation_review import review as write

    out.check()
    configuration = read_configuration(options.runs.config, options.checkout)
    if comparison is None:
        compared = options.compared(configuration)
    elif options.ask:
        raise BadInputError("--from is a finished comparison, and the other options ask anew")
    else:
        compared = read_saved_comparison(comparison)
    folder = tickets or configuration.tickets
    request = ReviewRequest(compared, tuple(require or ()), ticket, folder, reviewer, plan, configuration)
    written = write(request)
    out.put(written, render_review)
    for note in compared.notes:
        complain(f"note: {note}")
    raise typer.Exit(0 if written.assessment is Assessment.APPROVED else 1)
