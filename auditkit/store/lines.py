"""The lines of a stretch of a document, each with its place: what readers of sections walk over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.store.scan import Span
from auditkit.store.tables import is_delimiter, split_row, unescape


@dataclass(frozen=True)
class Line:
    """One line: its place and its text, blanks at both ends removed."""

    span: Span
    text: str

    @property
    def is_row(self) -> bool:
        return self.text.startswith("|")


@dataclass(frozen=True)
class Row:
    """One table row: its line, and the cells' places and texts without the blanks around them."""

    span: Span
    cells: tuple[Span, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A header row and the rows below its delimiter; `header` is None for rows that stand alone."""

    header: Row | None
    rows: tuple[Row, ...]


def lines_of(data: bytes, within: Span, hidden: tuple[Span, ...]) -> Iterator[Line]:
    """Every line of `data[within]` outside the `hidden` stretches."""
    position = within.start
    covers = iter([span for span in hidden if span.end > within.start and span.start < within.end])
    cover = next(covers, None)
    while position < within.end:
        if cover is not None and position >= cover.start:
            position = max(position, cover.end)
            cover = next(covers, None)
            continue
        following = data.find(b"\n", position) + 1 or len(data)
        end = following - 1 if data[following - 1] == 0x0A else following
        if end > position and data[end - 1] == 0x0D:
            end -= 1
        yield Line(Span(position, end), data[position:end].decode("utf-8", "replace").strip())
        position = following


def blocks_of(data: bytes, within: Span, hidden: tuple[Span, ...]) -> Iterator[Line | Table]:
    """The lines of a stretch, those of tables gathered into tables."""
    rows: list[Line] = []
    for line in lines_of(data, within, hidden):
        if line.is_row:
            rows.append(line)
            continue
        if rows:
            yield _table(data, rows)
            rows = []
        yield line
    if rows:
        yield _table(data, rows)


def _table(data: bytes, lines: list[Line]) -> Table:
    has_header = len(lines) > 1 and is_delimiter(data, lines[1].span)
    rows = [_row(data, line.span) for line in lines if not is_delimiter(data, line.span)]
    return Table(rows[0], tuple(rows[1:])) if has_header and rows else Table(None, tuple(rows))


def _row(data: bytes, span: Span) -> Row:
    cells = split_row(data, span)
    return Row(span, cells, tuple(unescape(data[cell.start : cell.end]).strip() for cell in cells))
