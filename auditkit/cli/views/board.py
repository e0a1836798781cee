"""`auditkit ticket board`."""

from __future__ import annotations

from auditkit.cli.lookups import tickets_folder
from auditkit.cli.output import complain, is_terminal, say_json, say_styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from auditkit.store.listing.index import Index

_GAP = 2
_LEAST_COLUMN = 18
"""Narrower columns hold an id and a severity, and no two words of a title."""
_TITLE_LINES = 2


def show_board(
    tickets: Path | str | None = None,
    *,
    every: bool = False,
    blocked: bool | None = None,
    stale: bool = False,
    limit: int = 10,
    as_json: bool = False,
    **wanted: Sequence[Any] | None,
) -> int:
    """Print the tickets in columns by their status, the worst and oldest first; the exit code.

    What is finished is counted, and shown in columns of its own with `every`. Raises BadInputError.
    """
    from auditkit.cli.views.filters import in_state, named_filters, names_status, passing_all
    from auditkit.cli.views.listing import complain_of_broken
    from auditkit.store.listing.index import read_index
    from auditkit.store.listing.selection import ordered

    folder = tickets_folder(tickets)
    index = read_index(folder)
    passing = passing_all(index, named_filters(folder, index, wanted, blocked, stale))
    numbers = ordered(index, ordered(index, passing, "age"), "severity")
    shown, _ = in_state(index, numbers, None if every or names_status(wanted) else False)
    columns = _by_status(index, shown)
    if as_json:
        say_json(_document(index, columns))
    elif not columns:
        complain("no ticket to show" if not numbers else "all tickets are finished: --all shows them")
    elif is_terminal():
        _print_columns(index, columns, limit)
    else:
        _print_lists(index, columns, limit)
    counts = _by_status(index, sorted(set(numbers) - set(shown)))
    if counts and columns:
        complain(", ".join(f"{len(them)} {status}" for status, them in counts.items()) + " (finished: --all)")
    return complain_of_broken(index.broken, folder)


def _by_status(index: Index, numbers: Sequence[int]) -> dict[str, list[int]]:
    """The tickets of each status that some have, in the order of a ticket's life; unknown words come last."""
    from auditkit.store.listing.rows import LIFE, STATUS, STATUS_WRITTEN, shown

    known, written = index.column(STATUS), index.column(STATUS_WRITTEN)
    found: dict[str, list[int]] = {}
    for number in numbers:
        found.setdefault(known[number] or shown(written[number])[0] or "-", []).append(number)
    return {
        status: found[status] for status in [*(one for one in LIFE if one in found), *sorted(found.keys() - set(LIFE))]
    }


def _print_lists(index: Index, columns: Mapping[str, Sequence[int]], limit: int) -> None:
    """A list below each status, as a pipe gets it."""
    from auditkit.store.listing.rows import SHOWN, aligned

    shown = index.column(SHOWN)
    for status, numbers in columns.items():
        say_styled(f"{status} ({len(numbers)})")
        say_styled(
            "\n".join(f"  {line}" for line in aligned([shown[number] for number in numbers[:limit]]).split("\n"))
        )
        if len(numbers) > limit:
            say_styled(f"  {len(numbers) - limit} more")


def _print_columns(index: Index, columns: Mapping[str, Sequence[int]], limit: int) -> None:
    """As many columns beside each other as the terminal has room for, the others below them."""
    from auditkit.cli.views.terminal import page, screen_width

    screen = screen_width()
    beside = max(1, min(len(columns), (screen + _GAP) // (_LEAST_COLUMN + _GAP)))
    rows = -(-len(columns) // beside)
    beside = -(-len(columns) // rows)
    width = (screen + _GAP) // beside - _GAP
    statuses = list(columns)
    lines: list[str] = []
    for first in range(0, len(statuses), beside):
        cells = [
            list(_column(index, status, columns[status], width, limit)) for status in statuses[first : first + beside]
        ]
        lines += [*([""] if lines else []), *_joined(cells, width)]
    page("\n".join(lines))


def _column(index: Index, status: str, numbers: Sequence[int], width: int, limit: int) -> Iterator[tuple[str, str]]:
    """The lines of one column, each with its style: the status, and of each ticket id, severity and title."""
    from auditkit.cli.views.terminal import BOLD, DIM, SEVERITIES, cut, wrapped
    from auditkit.store.listing import rows as at

    yield cut(f"{status} {len(numbers)}", width), BOLD
    for number in numbers[:limit]:
        ticket_id, severity, _, _, mark, title = index.column(at.SHOWN)[number]
        assignee = at.shown(index.column(at.ASSIGNEE)[number])[0]
        yield "", ""
        head = " ".join(word for word in (ticket_id, severity, mark, assignee) if word)
        yield cut(head, width), SEVERITIES.get(severity, "")
        lines = wrapped(title, width)
        yield from ((line, "") for line in lines[: _TITLE_LINES - 1])
        if len(lines) >= _TITLE_LINES:
            yield cut(" ".join(lines[_TITLE_LINES - 1 :]), width), ""
    if len(numbers) > limit:
        yield "", ""
        yield cut(f"{len(numbers) - limit} more", width), DIM


def _joined(columns: Sequence[Sequence[tuple[str, str]]], width: int) -> Iterator[str]:
    from auditkit.cli.views.terminal import styled, width_of

    for number in range(max(map(len, columns))):
        cells = [column[number] if number < len(column) else ("", "") for column in columns]
        padded = [styled(text, style) + " " * (width - width_of(text)) for text, style in cells]
        yield (" " * _GAP).join(padded).rstrip()


def _document(index: Index, columns: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    from auditkit.store.listing import rows as at

    names = {"id": at.ID, "title": at.TITLE, "severity": at.SEVERITY, "assignee": at.ASSIGNEE, "path": at.PATH}
    fields = {name: index.column(field) for name, field in names.items()}
    return {
        "schema_version": 1,
        "columns": [
            {
                "status": status,
                "tickets": [
                    {name: column[number] for name, column in fields.items()}
                    | {"severity": fields["severity"][number] or None}
                    for number in numbers
                ],
            }
            for status, numbers in columns.items()
        ],
    }
