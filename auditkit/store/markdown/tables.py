"""Field and Value tables: `| **Severity** | `P2` |`, with the place of every value."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from auditkit.model.text import CODE_SPAN
from auditkit.store.markdown.scan import Span, line_end

# A pipe, or what may hide one: an escaped character, a code span, a backtick that starts none.
_PIECE = re.compile(rb"(?P<pipe>\|)|\\.|(?P<ticks>`++).*?(?<!`)(?P=ticks)(?!`)|`+", re.DOTALL)
_ROW = re.compile(rb"[ \t]*\|")
# A label and a value, all code spans closed where they began: found by itself as fast as pipes are told apart.
_PLAIN_FIELD = re.compile(rb"[ \t]*\|([^|`\\]*+)\|((?:[^|`\\]++|`[^`|\\]++`(?!`))*+)(\||\Z)")
# Found several times as fast as with `^`.
_NEXT_ROW = re.compile(rb"\n([ \t]*\|[^\n]*)")
_BOLD = re.compile(rb"(\*\*|__)(.+?)\1", re.DOTALL)
CODE = re.compile(CODE_SPAN.pattern.encode(), re.DOTALL)
_DELIMITERS = b" \t\r\n\f\v|:-"


class Field(NamedTuple):
    """One row: `label` without decoration; `cell` is the whole second cell between its pipes.

    `value` is the part an edit replaces: the cell without blanks around it, and inside its backticks or
    bold where it has some. `text` is that part decoded, `written` the cell with its decoration. `places` are
    those of line, cell and value, counted from the row's `start`.
    """

    label: str
    text: str
    written: str
    places: tuple[Span, Span, Span]
    start: int = 0

    @property
    def line(self) -> Span:
        return self.places[0].moved(self.start)

    @property
    def cell(self) -> Span:
        return self.places[1].moved(self.start)

    @property
    def value(self) -> Span:
        return self.places[2].moved(self.start)


def read_fields(data: bytes, within: Span, hidden: tuple[Span, ...] = ()) -> tuple[Field, ...]:
    """Every row with a label in the tables of `data[within]`, but not those in `hidden` stretches."""
    fields: list[Field] = []
    covers = [span for span in hidden if span[1] > within.start and span[0] < within.end]
    first = _ROW.match(data, within.start, within.end)
    found = [(within.start, data[within.start : line_end(data, within.start)])] if first else []
    rows = _NEXT_ROW.finditer(data, within.start, within.end)
    found += [(match.start(1), match[1].removesuffix(b"\r")) for match in rows]
    for start, raw in found:
        if covers and any(span.start <= start < span.end for span in covers):
            continue
        row = _read_row(raw)
        if row is not None:
            fields.append(_field((*row, start)))
    return tuple(fields)


# A class that is called makes a tuple in twice the time.
_field: Callable[[tuple[object, ...]], Field] = partial(tuple.__new__, Field)


def split_row(data: bytes, line: Span) -> tuple[Span, ...]:
    """The cells of a table row, without its outer pipes; () where the line is no row."""
    row = _ROW.match(data, line.start, line.end)
    if row is None:
        return ()
    start = row.end() - 1
    pipes = _pipes(data, start, line.end)
    cells = [Span(left + 1, right) for left, right in itertools.pairwise(pipes)]
    if data[pipes[-1] + 1 : line.end].strip():
        cells.append(Span(pipes[-1] + 1, line.end))
    return tuple(cells)


def _pipes(data: bytes, start: int, end: int) -> list[int]:
    """Where the pipes between cells are."""
    parts = data[start:end].split(b"|")
    is_plain = b"\\" not in data[start:end] and b"``" not in data[start:end]
    if is_plain and all(part.count(b"`") % 2 == 0 for part in parts):
        # Every code span ends in the cell that it starts in: four times as fast as the pattern.
        ends = itertools.accumulate(len(part) + 1 for part in parts[:-1])
        return [start + end - 1 for end in ends]
    return [piece.start() for piece in _PIECE.finditer(data, start, end) if piece["pipe"] is not None]


def is_delimiter(data: bytes, line: Span) -> bool:
    """Whether the line is the one between a table's header and its rows: `|---|:-:|`."""
    return line.start < line.end and not data[line.start : line.end].strip(_DELIMITERS)


def unescape(raw: bytes) -> str:
    """A cell's text: an escaped pipe is a pipe."""
    return raw.decode("utf-8", "replace").replace("\\|", "|")


@lru_cache(maxsize=4096)
def _read_row(data: bytes) -> tuple[str, str, str, tuple[Span, Span, Span]] | None:
    """A field's label, text, written cell and places; most rows of a ticket stand in others, too."""
    line = Span(0, len(data))
    if is_delimiter(data, line):
        return None
    plain = _PLAIN_FIELD.match(data)
    is_plain = plain is not None and (plain[3] or plain[2].strip())
    cells = (Span(*plain.span(1)), Span(*plain.span(2))) if plain and is_plain else split_row(data, line)
    if len(cells) < 2:
        return None
    label = data[cells[0].start : cells[0].end].decode("utf-8", "replace").strip().strip("*_`").strip()
    raw = data[cells[1].start : cells[1].end]
    if not label:
        return None
    cell = _trimmed(data, cells[1])
    value = _inside_wrappers(data, cell)
    text = unescape(data[value.start : value.end])
    return label, text, unescape(raw.strip()), (line, cells[1], value)


def _trimmed(data: bytes, span: Span) -> Span:
    raw = data[span.start : span.end]
    start = span.start + len(raw) - len(raw.lstrip())
    return Span(start, start + len(raw.strip())) if raw.strip() else Span(span.end, span.end)


def _inside_wrappers(data: bytes, cell: Span) -> Span:
    """The first code span or bold text where the cell starts with one: `**NEUTRAL** (with caveat)`."""
    bold = _BOLD.match(data, cell.start, cell.end)
    inner = Span(bold.start(2), bold.end(2)) if bold else cell
    code = CODE.match(data, inner.start, inner.end)
    return _without_padding(data, Span(code.start(2), code.end(2))) if code else inner


def _without_padding(data: bytes, code: Span) -> Span:
    """A code span's content: one blank on both sides is padding for backticks at its ends."""
    text = data[code.start : code.end]
    if text[:1] == b" " and text[-1:] == b" " and text.strip():
        return Span(code.start + 1, code.end - 1)
    return code
