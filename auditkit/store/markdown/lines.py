"""The lines of a stretch of a document, each with its place: what readers of sections walk over."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
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


def blocks_of(data: bytes, within: Span, hidden: tuple[Span, ...]) -> Iterator[Line | Table]:
    """The lines of a stretch that are not blank, those of tables gathered into tables."""
    rows: list[tuple[int, bytes]] = []
    for start, raw in _raw_lines(data, within, hidden):
        text = raw.decode("utf-8", "replace").strip() if raw else ""
        if text[:1] == "|":
            rows.append((start, raw))
            continue
        if rows:
            yield _table(rows)
            rows = []
        if text:
            yield Line(start, start + len(raw), text)
    if rows:
        yield _table(rows)


def _raw_lines(data: bytes, within: Span, hidden: tuple[Span, ...]) -> Iterator[tuple[int, bytes]]:
    """Where each line starts, and its bytes without the line end."""
    position, end = within
    covers = [span for span in hidden if span[1] > position and span[0] < end]
    for cover in (*covers, Span(end, end)):
        stretch = data[position : cover.start]
        lines = stretch.split(b"\n")
        if not lines[-1]:
            lines.pop()
        has_returns = b"\r" in stretch
        for raw in lines:
            yield position, raw.removesuffix(b"\r") if has_returns else raw
            position += len(raw) + 1
        position = max(position, cover.end)


def _table(lines: list[tuple[int, bytes]]) -> Table:
    read = [(start, raw, *_cells(raw)) for start, raw in lines]
    rows = tuple(Row(start, start + len(raw), cells, texts) for start, raw, cells, texts in read if cells)
    has_header = len(read) > 1 and not read[1][2]
    return Table(rows[0], rows[1:]) if has_header and rows else Table(None, rows)


@lru_cache(maxsize=4096)
def _cells(row: bytes) -> tuple[tuple[Span, ...], tuple[str, ...]]:
    """The cells of a row and their texts; none of a delimiter."""
    if is_delimiter(row, Span(0, len(row))):
        return (), ()
    cells = split_row(row, Span(0, len(row)))
    return cells, tuple(unescape(row[cell.start : cell.end]).strip() for cell in cells)
