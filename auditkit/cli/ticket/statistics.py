"""Command that counts: stats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, end_if_broken, open_repository, run_or_exit
from auditkit.cli.lookups import choose
from auditkit.cli.output import complain, say, say_json, wants_colour
from auditkit.cli.ticket.common import app

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditkit.store.folder.repository import Repository
    from auditkit.workflows.tickets.statistics import FolderStatistics, PageCheck

_Row = tuple[str, ...]


@app.command(epilog="Example: auditkit ticket stats --against tickets/SUMMARY.md")
@run_or_exit
def stats(
    tickets: TicketsOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this field: severity, status, agent, batch, domain, category, verdict, consensus "
            "(may be repeated).",
            show_default="all",
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Check the figures of a summary page instead; exit 1 where one is wrong."),
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a summary page.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Count tickets by field, or check a summary page's figures.

    Exit 2 where a file of the folder cannot be read: its ticket is in no count.
    """
    from auditkit.errors import BadInputError
    from auditkit.workflows.tickets.statistics import Facet, folder_statistics, parse_facet, render_statistics

    if against and (by or as_markdown):
        raise BadInputError("--against goes with neither --by nor --markdown", "run them one after the other")
    if as_json and as_markdown:
        raise BadInputError("--json and --markdown exclude each other", "choose one")
    facets = [choose(parse_facet, name, list(Facet)) for name in by or []]
    repository = open_repository(tickets)
    if against:
        _check_pages(repository, against, as_json)
        return
    counted = folder_statistics(repository, tuple(dict.fromkeys(facets)) or tuple(Facet))
    if as_json:
        broken = [entry.to_json() for entry in counted.broken]
        say_json({"schema_version": 1, **counted.statistics.to_json(), "broken": broken})
    elif as_markdown:
        say(render_statistics(counted.statistics).removesuffix("\n"))
    else:
        _print_statistics(counted)
    end_if_broken(counted.broken, repository.folder)


def _check_pages(repository: Repository, files: Sequence[Path], as_json: bool) -> None:
    from auditkit.errors import ExitCode
    from auditkit.workflows.tickets.statistics import check_page

    results = [(file, *check_page(repository, file)) for file in files]
    if as_json:
        pages = [{"path": file.as_posix()} | check.to_json() for file, check, _ in results]
        say_json({"schema_version": 1, "pages": pages, "broken": [entry.to_json() for entry in results[0][2]]})
    else:
        for file, check, _ in results:
            _print_check(file, check)
    end_if_broken(results[0][2], repository.folder)
    if any(check.wrong or check.contradictions for _, check, _ in results):
        raise typer.Exit(int(ExitCode.FINDINGS))


def _print_check(file: Path, check: PageCheck) -> None:
    """Every figure that is wrong, contradicts another or could not be checked, and how many are right."""
    from auditkit.model.text import inert_line

    kinds = (("", check.wrong), ("contradiction: ", check.contradictions), ("not checked: ", check.unchecked))
    for kind, remarks in kinds:
        for remark in remarks:
            say(f"{inert_line(str(file))}:{remark.line}:{remark.column}: {kind}{inert_line(remark.message)}")
    complain(
        f"{file}: {check.right} right, {len(check.wrong)} wrong, {len(check.contradictions)} contradictions, "
        f"{len(check.unchecked)} not checked"
    )


def _print_statistics(counted: FolderStatistics) -> None:
    say(f"tickets  {counted.statistics.total}")
    for head, rows in _tables(counted):
        if not rows:
            continue
        say("")
        _print_rich(head, rows) if wants_colour() else _print_plain([head, *rows])


def _tables(counted: FolderStatistics) -> Iterator[tuple[_Row, list[_Row]]]:
    """A table for each field, and severity by status where both were counted; the header first."""
    from auditkit.model.text import inert_line

    statistics = counted.statistics
    fields = {facet.value: counts for facet, counts in statistics.by.items()}
    for name, counts in fields.items():
        unit = "votes" if name == "verdict" else "count"
        yield (name, unit, "%"), [(inert_line(one.label), str(one.count), f"{one.percent:.1f}") for one in counts]
    if {"severity", "status"} <= fields.keys():
        statuses = [one.label for one in fields["status"]]
        severities = [one.label for one in fields["severity"]]
        rows = [(level, *(str(statistics.cross.get((level, one), 0)) for one in statuses)) for level in severities]
        yield ("severity by status", *statuses), rows


def _print_plain(rows: Sequence[_Row]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        say("  ".join([row[0].ljust(widths[0]), *numbers]).rstrip())


def _print_rich(head: _Row, rows: Sequence[_Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*head, box=box.SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)
