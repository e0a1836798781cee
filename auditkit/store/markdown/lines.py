"""The lines of a stretch of a document, each with its place: what readers of sections walk over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from auditkit.store.markdown.scan import Span
from auditkit.store.markdown.tables import is_delimiter, split_row, unescape


class Line(NamedTuple):
    """One line: its place from `start` to `end`, and its text, blanks at both ends removed."""

    start: int
    end: int
    text: str

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


class Row(NamedTuple):
    """One table row: its place, the cells' places in it, and their texts without the blanks around them."""

    start: int
    end: int
    cells: tuple[Span, ...]
    texts: tuple[str, ...]

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)

    def place(self, column: int) -> Span:
        """Where the cell is in the document."""
        return self.cells[column].moved(self.start)


class Table(NamedTuple):
    """A header row and the rows below its delimiter; `header` is None for rows that stand alone."""

    header: Row | None
    rows: tuple[Row, ...]


def lines_of(data: bytes, within: Span, hidden: tuple[Span, ...]) -> Iterator[Line]:
    """Every line of `data[within]` outside the `hidden` stretches."""
    for start, raw in _raw_lines(data, within, hidden):
        yield Line(start, start + len(raw), raw.decode("utf-8", "replace").strip())


def blocks_of(data: bytes, within: Span, hidden: tuple[Span, ...]) -> list[Line | Table]:
    """The lines of a stretch that are not blank, those of tables gathered into tables."""
    found: list[Line | Table] = []
    rows: list[tuple[int, bytes]] = []
    for start, raw in _raw_lines(data, within, hidden):
        if raw[:1] == b"|" or (text := raw.decode("utf-8", "replace").strip())[:1] == "|":
            rows.append((start, raw))
            continue
        if rows:
            found.append(_table(rows))
            rows = []
        if text:
            found.append(_line((start, start + len(raw), text)))
    return [*found, _table(rows)] if rows else found


def _raw_lines(data: bytes, within: Span, hidden: tuple[Span, ...]) -> list[tuple[int, bytes]]:
    """Where each line starts, and its bytes without the line end."""
    position, end = within
    found: list[tuple[int, bytes]] = []
    for cover in (*[span for span in hidden if span[1] > position and span[0] < end], (end, end)):
        for raw in data[position : cover[0]].split(b"\n"):
            found.append((position, raw))
            position += len(raw) + 1
        if not raw:
            found.pop()
        position = cover[1]
    return [(start, raw.removesuffix(b"\r")) for start, raw in found] if b"\r" in data else found


def _table(lines: list[tuple[int, bytes]]) -> Table:
    read = [_row((start, start + len(raw), *_cells(raw))) for start, raw in lines]
    rows = [row for row in read if row.cells]
    has_header = len(read) > 1 and not read[1].cells
    return Table(rows[0], tuple(rows[1:])) if has_header and rows else Table(None, tuple(rows))


# A class that is called makes a tuple in twice the time.
_line: Callable[[tuple[int, int, str]], Line] = partial(tuple.__new__, Line)
_row: Callable[[tuple[int, int, tuple[Span, ...], tuple[str, ...]]], Row] = partial(tuple.__new__, Row)


@lru_cache(maxsize=4096)
def _cells(row: bytes) -> tuple[tuple[Span, ...], tuple[str, ...]]:
    """The cells of a row and their texts; none of a delimiter."""
    if is_delimiter(row, Span(0, len(row))):
        return (), ()
    cells = split_row(row, Span(0, len(row)))
    return cells, tuple(unescape(row[cell.start : cell.end]).strip() for cell in cells)
