"""A page of a report: titled sections of plain blocks, and the Markdown of it. `html/page.py` makes the HTML."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.model.text import inert, shortened
from auditkit.reports.html.pictures import Picture
from auditkit.tickets import markdown

_WRAP, WIDEST = 120, 138
"""Columns of prose, and the most that a row of a table or a line of code has."""
_MOST_DIFF = 40
_NARROWEST_CELL = 12
_LIVE = re.compile(r"(?:https?://|www\.|@(?=\w))[^\s`]+|!?\[[^\]\n]*\]\([^\s`]*")
"""What a host makes a link, a picture or a mention of."""


class Code(str):
    """A name, or a text that only the audited code decides."""

    __slots__ = ()


class Strong(str):
    """Words in bold."""

    __slots__ = ()


@dataclass(frozen=True)
class Link:
    """Words that lead to the section with this anchor; Markdown has the words alone."""

    text: str
    anchor: str


Span = str | Code | Strong | Link
"""A plain `str` is text: nothing in it becomes markup."""
Spans = tuple[Span, ...]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    spans: Spans


@dataclass(frozen=True)
class Items:
    """A list with bullets."""

    rows: tuple[Spans, ...]


@dataclass(frozen=True)
class Table:
    """A table; in Markdown its longest cells are shortened until a row fits."""

    head: tuple[str, ...]
    rows: tuple[tuple[Span, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Listing:
    """Lines of code from `first` on; those from `marked` to `last` are blamed."""

    file: str
    first: int
    lines: tuple[str, ...]
    marked: int = 0
    last: int = 0


@dataclass(frozen=True)
class Diff:
    """A unified diff."""

    text: str


@dataclass(frozen=True)
class Written:
    """Markdown that people wrote."""

    text: str


@dataclass(frozen=True)
class Figure:
    """A drawing; only HTML has it."""

    picture: Picture


@dataclass(frozen=True)
class Cell:
    """One result in a grid: its column, its outcome, sign and word."""

    column: str
    kind: str
    sign: str
    word: str


@dataclass(frozen=True)
class Grid:
    """Results by row and column; only HTML has it. `corner` names the rows."""

    caption: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class Folded:
    """Details that HTML shows on demand, and Markdown leaves out."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Section:
    """Blocks below a title; with a `severity`, a card that HTML folds unless it `is_open`.

    `lead` is what a folded card still shows; `probes` are those that a reader of the HTML can filter by.
    """

    title: str
    blocks: tuple[Block, ...]
    anchor: str = ""
    severity: str = ""
    lead: Spans = ()
    probes: tuple[str, ...] = ()
    is_open: bool = True


Block = Text | Items | Table | Listing | Diff | Written | Figure | Grid | Folded | Section


@dataclass(frozen=True)
class Page:
    """A report. `summary` are its sentences at the top, `facts` where the numbers are from."""

    title: str
    summary: tuple[str, ...]
    facts: tuple[tuple[str, Spans], ...]
    sections: tuple[Section, ...]
    attachment: tuple[str, bytes] | None = None
    """A file that lies in the HTML: its name, and its bytes packed by gzip."""


def markdown_page(page: Page) -> bytes:
    """The page as Markdown in UTF-8, no prose wider than 120 columns."""
    parts = [f"# {_span(page.title)}", "\n".join(f"- {_line(each)}" for each in page.summary)]
    parts += ["\n".join(_wrapped(f"**{label}:** {_spans(spans)}", "") + "\\" for label, spans in page.facts)[:-1]]
    parts += [part for section in page.sections for part in _section(section, 2)]
    return ("\n\n".join(part for part in parts if part) + "\n").encode("utf-8", "replace")


def _section(section: Section, level: int) -> Iterator[str]:
    parts: list[str] = []
    for block in (Text(section.lead), *section.blocks):
        parts += _section(block, level + 1) if isinstance(block, Section) else [_block(block)]
    if any(parts):
        severity = f"{section.severity} " if section.severity else ""
        yield f"{'#' * level} {severity}{_span(section.title)}"
        yield from parts


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return _wrapped(_spans(block.spans), "") if block.spans else ""
    if isinstance(block, Items):
        return "\n".join(_wrapped(_spans(spans), "- ") for spans in block.rows)
    if isinstance(block, Table):
        return "\n".join([_row(block.head), "|---" * len(block.head) + "|", *map(_row, block.rows)])
    if isinstance(block, Listing):
        return markdown.fence("\n".join(_cut(line) for line in numbered(block)), "text")
    if isinstance(block, Diff):
        lines = block.text.splitlines()
        more = [f"... {len(lines) - _MOST_DIFF} more lines"] if len(lines) > _MOST_DIFF else []
        return markdown.fence("\n".join(_cut(line) for line in [*lines[:_MOST_DIFF], *more]), "diff")
    return markdown.prose(block.text) if isinstance(block, Written) else ""


def numbered(block: Listing) -> Iterator[str]:
    """Each line with its number, the blamed ones with a mark."""
    for number, line in enumerate(block.lines, block.first):
        mark = ">" if block.marked <= number <= block.last else " "
        yield f"{mark}{number:>5}  {line}"


def _cut(line: str) -> str:
    return shortened(inert(line).replace("\n", "\\n"), WIDEST - 3)


def _row(cells: Sequence[Span]) -> str:
    """One row of a table, its longest cells shortened until it fits."""
    texts = [each.text if isinstance(each, Link) else each for each in cells]
    while sum(map(len, texts)) > WIDEST - 5 * len(texts):
        longest = max(range(len(texts)), key=lambda number: len(texts[number]))
        if len(texts[longest]) <= _NARROWEST_CELL:
            break
        kept = f"{str(texts[longest]).removesuffix('...')[:-8].rstrip()}..."
        texts[longest] = Code(kept) if isinstance(texts[longest], Code) else kept
    return f"| {' | '.join(_span(text).replace(chr(10), ' ') if text else '' for text in map(_piped, texts))} |"


def _piped(text: str) -> str:
    return text if isinstance(text, Code) else text.replace("|", "¦")


def _wrapped(text: str, bullet: str) -> str:
    """Prose in lines, none of which opens a block that it does not mean to open."""
    lines = textwrap.wrap(text, _WRAP, break_long_words=False, break_on_hyphens=False) or [""]
    indent = " " * len(bullet)
    return "\n".join(
        (indent if number else bullet) + (markdown.opens_nothing(line) if number or not line.startswith("**") else line)
        for number, line in enumerate(lines)
    )


def _line(text: str) -> str:
    return _wrapped(_span(text), "").replace("\n", "\n  ")


def _spans(spans: Spans) -> str:
    return "".join(map(_span, spans))


def _span(span: Span) -> str:
    if isinstance(span, Code):
        return markdown.code(span)
    if isinstance(span, Strong):
        return f"**{markdown.line(span)}**"
    text = span.text if isinstance(span, Link) else span
    edges = (" " * text.startswith(" "), " " * text.endswith(" ")) if text.strip() else ("", "")
    # What a host would make a link of stands in a code span.
    parts, position = [], 0
    for match in _LIVE.finditer(text):
        parts += [markdown.line(text[position : match.start()]), " ", markdown.code(match[0]), " "]
        position = match.end()
    return f"{edges[0]}{''.join([*parts, markdown.line(text[position:])]).strip()}{edges[1]}"
