"""The columns that a list of tickets may have, and the list of them in a terminal, a pipe, CSV, JSON and Markdown."""

from __future__ import annotations

from auditkit.cli.lookups import choose
from auditkit.cli.output import is_terminal, say_json, say_styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from auditkit.store.listing.index import Index

COLUMNS = (
    "id", "severity", "status", "agent", "assignee", "age", "created", "updated", "batch", "domain", "category", "file",
    "consensus", "waits", "blocked-by", "labels", "due", "path", "title",
)  # fmt: skip
FORMATS = ("text", "csv", "json", "markdown")
ON_A_TERMINAL = ("id", "severity", "status", "agent", "assignee", "age", "mark", "title")
_IN_A_FILE = ("id", "severity", "status", "agent", "assignee", "created", "updated", "path", "title")
_FORMULA = ("=", "+", "-", "@")


def print_columns(index: Index, numbers: Sequence[int], names: Sequence[str], form: str) -> None:
    """Print the named columns of the tickets, or those that the format usually has. Raises BadInputError."""
    for name in names:
        if name not in COLUMNS:
            choose(COLUMNS.index, name, COLUMNS, "column")
    if form == "json":
        cells = zip(*(_cells(index, numbers, name) for name in names), strict=True)
        say_json({"schema_version": 1, "tickets": [dict(zip(names, line, strict=True)) for line in cells]})
        return
    is_file = form in ("csv", "markdown")
    table = table_of(index, numbers, names or (_IN_A_FILE if is_file else ON_A_TERMINAL))
    if form == "csv":
        say_styled(_csv(table))
    elif form == "markdown":
        say_styled(_markdown(table))
    elif is_terminal():
        from auditkit.cli.views.terminal import print_table

        print_table(table, may_narrow=not names)
    elif numbers:
        say_styled(_aligned(table))


def table_of(index: Index, numbers: Sequence[int], names: Sequence[str]) -> dict[str, list[str]]:
    """The cells of every column, inert, from the top to the bottom."""
    from auditkit.store.listing.rows import shown

    return {name: list(shown(*_cells(index, numbers, name))) for name in names}


def _cells(index: Index, numbers: Sequence[int], name: str) -> list[str]:
    from auditkit.store.listing import rows as at

    if name == "mark":
        return [at.mark_of(answer) for answer in _column(index, numbers, at.ANSWER)]
    if name == "age":
        return _ages(_column(index, numbers, at.CREATED))
    if name == "blocked-by":
        blocked = index.blocked
        return [", ".join(blocked.get(ticket_id, ())) for ticket_id in _column(index, numbers, at.ID)]
    if name in ("severity", "status"):
        known, written = {
            "severity": (at.SEVERITY, at.SEVERITY_WRITTEN), "status": (at.STATUS, at.STATUS_WRITTEN),
        }[name]  # fmt: skip
        both = zip(_column(index, numbers, known), _column(index, numbers, written), strict=True)
        return [word or other or "-" for word, other in both]
    field = {
        "id": at.ID, "agent": at.AGENT, "assignee": at.ASSIGNEE, "created": at.CREATED, "updated": at.UPDATED,
        "batch": at.BATCH, "domain": at.DOMAINS, "category": at.CATEGORIES, "file": at.FILES,
        "consensus": at.AGREEMENT, "waits": at.ANSWER, "labels": at.LABELS, "due": at.DUE, "path": at.PATH,
        "title": at.TITLE,
    }[name]  # fmt: skip
    values = _column(index, numbers, field)
    return [", ".join(value) if isinstance(value, tuple) else str(value) for value in values]


def _column(index: Index, numbers: Sequence[int], field: int) -> list[Any]:
    column = index.column(field)
    return [column[number] for number in numbers]


def _ages(dates: Sequence[str]) -> list[str]:
    """How long ago each date was, in the unit that people would say; "" for what is no date."""
    import datetime

    today = datetime.date.today()
    known: dict[str, str] = {}
    for text in set(dates):
        try:
            known[text] = age_of((today - datetime.date.fromisoformat(text)).days)
        except ValueError:
            known[text] = ""
    return [known[text] for text in dates]


def age_of(days: int) -> str:
    """`5d`, `3w`, `4mo`, `2y`; "" for a day that is still to come."""
    for unit, length in (("y", 365), ("mo", 30), ("w", 7)):
        if days >= 2 * length:
            return f"{days // length}{unit}"
    return f"{days}d" if days >= 0 else ""


def _aligned(table: Mapping[str, Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in table.values()]
    lines = zip(*table.values(), strict=True)
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _csv(table: Mapping[str, Sequence[str]]) -> str:
    """RFC 4180, with a heading. A cell that a spreadsheet would compute begins with a quote."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    for line in zip(*table.values(), strict=True):
        writer.writerow([f"'{cell}" if len(cell) > 1 and cell.startswith(_FORMULA) else cell for cell in line])
    return text.getvalue().removesuffix("\n")


def _markdown(table: Mapping[str, Sequence[str]]) -> str:
    rows = [table, ["---"] * len(table), *zip(*table.values(), strict=True)]
    return "\n".join(f"| {' | '.join(map(_markdown_cell, row))} |" for row in rows)


def _markdown_cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
