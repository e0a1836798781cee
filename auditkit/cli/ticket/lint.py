"""The command that checks what tickets say: lint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.completion import groupings
from auditkit.cli.lookups import choose
from auditkit.cli.options import ConfigOption
from auditkit.cli.output import say_json
from auditkit.cli.ticket.common import app


@app.command(epilog="Example: auditkit ticket lint --checkout ../trainer@main --ignore TK06")
@write_or_exit
def lint(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Tickets or folders of them, or ids; default: the tickets folder."),
    ] = None,
    tickets: TicketsOption = None,
    config: ConfigOption = None,
    checkout: Annotated[
        str | None,
        typer.Option("--checkout", metavar="DIR[@REV]", help="The code that the tickets speak of, to compare with."),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="RULES", help="Only these: TK011,TK06 or several options.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", metavar="RULES", help="All but these.")] = None,
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="error|warn|info", help="Exit 1 from findings of this level on.")
    ] = "warn",
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what is mechanical: status spelling, final newline, folder.")
    ] = False,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="Leave out the findings that this file knows.")
    ] = None,
    write_baseline: Annotated[
        bool, typer.Option("--write-baseline", help="Write the file of --baseline: all that is found is known then.")
    ] = False,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="file|rule|count",
            help="A line each, a group for each rule, or counts. Default: rule on a terminal, else file.",
            autocompletion=groupings,
        ),
    ] = "",
    as_json: JsonOption = False,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="Print one SARIF 2.1.0 document.")] = False,
) -> None:
    """Check what tickets say, against rules and source.

    The rules are in docs/lint.md; a finding is a line `path:line:col: TKnnn level: message`. Rules that compare
    with source need --checkout.

    Exits 0 where nothing has the level of --fail-on (default warn) or a worse one, 1 where something has, and 2
    where a file cannot be read as a ticket.
    """
    from auditkit.cli.views.lint_findings import BY, print_findings, tell
    from auditkit.errors import BadInputError
    from auditkit.workflows.lint.lint import LEVELS, LintRequest, parse_level, sarif_of
    from auditkit.workflows.lint.lint import lint as lint_tickets

    if as_json and as_sarif:
        raise BadInputError("--json and --sarif are two documents", "choose one")
    if write_baseline and baseline is None:
        raise BadInputError("--write-baseline does not say where", "--baseline FILE")
    form = choose(lambda word: BY[BY.index(word)], by, BY, "grouping") if by else ""
    lowest = choose(parse_level, fail_on, LEVELS, "level")
    report = lint_tickets(
        LintRequest(
            paths=paths or (),
            tickets=_folder(tickets, bool(paths)),
            config=config,
            checkout=checkout,
            select=_names(select),
            ignore=_names(ignore),
            fix=fix,
            baseline=baseline,
            accept=write_baseline,
        )
    )
    if as_json:
        say_json(report.to_json())
    elif as_sarif:
        say_json(sarif_of(report))
    else:
        print_findings(report.findings, form)
    tell(report, baseline, write_baseline)
    if report.broken:
        raise typer.Exit(2)
    if report.reaches(lowest):
        raise typer.Exit(1)


def _folder(tickets: Path | None, are_paths_named: bool) -> Path | None:
    """The tickets folder; where paths are named, none need be there."""
    from auditkit.errors import BadInputError

    try:
        return open_repository(tickets).folder
    except BadInputError:
        if tickets is None and are_paths_named:
            return None
        raise


def _names(texts: list[str] | None) -> list[str]:
    return [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
