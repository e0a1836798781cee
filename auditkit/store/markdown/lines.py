"""The lines of a stretch of a document, each with its place: what readers of sections walk over."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from auditkit.store.markdown.scan import Span
from auditkit.store.markdown.tables import is_delimiter, split_row, unescape


class Line(NamedTuple):
    """One line: its place and its text, blanks at both ends removed."""

    span: Span
    text: str


class Row(NamedTuple):
    """One table row: its line, the cells' places in it, and their texts without the blanks around them."""

    span: Span
    cells: tuple[Span, ...]
    texts: tuple[str, ...]

    def place(self, column: int) -> Span:
        """Where the cell is in the document."""
        return self.cells[column].moved(self.span.start)


class Table(NamedTuple):
    """A header row and the rows below its delimiter; `header` is None for rows that stand alone."""

    header: Row | None
    rows: tuple[Row, ...]


def lines_of(data: bytes, within: Span, hidden: tuple[Span, ...]) -> Iterator[Line]:
    """Every line of `data[within]` outside the `hidden` stretches."""
    position = within.start
    covers = [span for span in hidden if span.end > within.start and span.start < within.end]
    for cover in (*covers, Span(within.end, within.end)):
        lines = data[position : cover.start].split(b"\n")
        if not lines[-1]:
            lines.pop()
        for raw in lines:
            end = position + len(raw)
            yield Line(Span(position, end - raw.endswith(b"\r")), raw.decode("utf-8", "replace").strip())
            position = end + 1
        position = max(position, cover.end)


def blocks_of(data: bytes, within: Span, hidden: tuple[Span, ...]) -> Iterator[Line | Table]:
    """The lines of a stretch that are not blank, those of tables gathered into tables."""
    rows: list[Line] = []
    for line in lines_of(data, within, hidden):
        if line.text.startswith("|"):
            rows.append(line)
            continue
        if rows:
            yield _table(data, rows)
            rows = []
        if line.text:
            yield line
    if rows:
        yield _table(data, rows)


def _table(data: bytes, lines: list[Line]) -> Table:
    read = [(line.span, *_cells(data[line.span.start : line.span.end])) for line in lines]
    rows = [Row(span, cells, texts) for span, cells, texts in read if cells]
    has_header = len(read) > 1 and not read[1][1]
    return Table(rows[0], tuple(rows[1:])) if has_header and rows else Table(None, tuple(rows))


@lru_cache(maxsize=4096)
def _cells(row: bytes) -> tuple[tuple[Span, ...], tuple[str, ...]]:
    """The cells of a row and their texts; none of a delimiter."""
    if is_delimiter(row, Span(0, len(row))):
        return (), ()
    cells = split_row(row, Span(0, len(row)))
    return cells, tuple(unescape(row[cell.start : cell.end]).strip() for cell in cells)
