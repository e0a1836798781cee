"""A page of a report: titled sections of Markdown and pictures. `html/page.py` makes HTML of the same Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditkit.model.text import inert, inert_line, shortened
from auditkit.reports.html.pictures import Picture
from auditkit.tickets import markdown

_WRAP, _WIDEST = 120, 138
"""Columns of prose, and the most that a row of a table or a line of code has."""
_MOST_DIFF, _MOST_ROWS = 40, 300
_NARROWEST_CELL = 12
_LIVE = re.compile(r"(?:https?://|www\.|@(?=\w))[^\s`]+|!?\[[^\]\n]*\]\([^\s`]*")
"""What a host makes a link, a picture or a mention of."""


@dataclass(frozen=True)
class Section:
    """Blocks below a plain title, left out without any. HTML shows a folded one closed, Markdown leaves it out."""

    title: str
    blocks: Sequence[Block]
    severity: str = ""
    is_folded: bool = False


Block = str | Picture | Section
"""A `str` is Markdown. Only HTML has pictures."""


@dataclass(frozen=True)
class Page:
    """A report. `summary` are plain sentences; `facts` say in Markdown where the numbers are from."""

    title: str
    summary: Sequence[str]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]


def markdown_page(page: Page) -> bytes:
    """The page as Markdown in UTF-8, no prose wider than 120 columns."""
    parts = [f"# {text(page.title)}", head_of(page), *(part for each in page.sections for part in _section(each, 2))]
    return ("\n\n".join(filter(None, parts)) + "\n").encode("utf-8", "replace")


def head_of(page: Page) -> str:
    """The summary and the facts of a page as Markdown."""
    facts = "\\\n".join(paragraph(f"{bold(label)} {words}") for label, words in page.facts)
    return "\n\n".join(filter(None, [items(map(text, page.summary)), facts]))


def _section(section: Section, level: int) -> Iterator[str]:
    parts: list[str] = []
    for block in () if section.is_folded else section.blocks:
        parts += _section(block, level + 1) if isinstance(block, Section) else [block] if isinstance(block, str) else []
    if any(parts):
        yield f"{'#' * level} {section.severity} {text(section.title)}".replace("#  ", "# ")
        yield from parts


# Inside a line: `markdown.code` is a name or a text that only the audited code decides.


def text(words: str) -> str:
    """Plain words as Markdown that becomes no markup; what a host would make a link of stands in a code span."""
    parts, position = [], 0
    for match in _LIVE.finditer(words):
        parts += [markdown.line(words[position : match.start()]), markdown.code(match[0])]
        position = match.end()
    return " ".join(filter(None, [*parts, markdown.line(words[position:])]))


def bold(words: str) -> str:
    return f"**{markdown.line(words)}**"


# Blocks.


def paragraph(words: str, bullet: str = "") -> str:
    """Markdown as lines of prose, none of which opens a block that it does not mean to open."""
    lines = textwrap.wrap(words, _WRAP, break_long_words=False, break_on_hyphens=False) or [""]
    indent = " " * len(bullet)
    return "\n".join(
        (indent if number else bullet) + (markdown.opens_nothing(line) if number or not line.startswith("**") else line)
        for number, line in enumerate(lines)
    )


def items(rows: Iterable[str]) -> str:
    """A list with bullets."""
    return "\n".join(paragraph(row, "- ") for row in rows)


def first(rows: Sequence[str], most: int, more: str) -> list[str]:
    """The first rows, and as the last one how many `more` there are."""
    return [*rows[:most], *([more.format(len(rows) - most)] if len(rows) > most else [])]


def table(head: Sequence[str], rows: Iterable[Sequence[str]], code: Collection[int] = ()) -> str:
    """A table of plain texts whose longest cells are shortened until a row fits; "" without rows."""
    # GitHub drops a summary of more than 1 MiB without a word.
    made = first([_row(each, code) for each in rows], _MOST_ROWS, "| {} more rows are in the JSON |")
    return "\n".join([_row(head, ()), "|---" * len(head) + "|", *made] if made else [])


def _row(cells: Sequence[str], code: Collection[int]) -> str:
    texts = list(map(inert_line, cells))
    while sum(map(len, texts)) > _WIDEST - 5 * len(texts):
        longest = max(range(len(texts)), key=lambda number: len(texts[number]))
        if len(texts[longest]) <= _NARROWEST_CELL:
            break
        texts[longest] = f"{texts[longest].removesuffix('...')[:-8].rstrip()}..."
    spans = (markdown.code(each) if at in code else text(each.replace("|", "¦")) for at, each in enumerate(texts))
    return f"| {' | '.join(spans)} |"


def listing(start: int, lines: Iterable[str], marked: range) -> str:
    """Lines of code from `start` on, each with its number; the numbers `marked` have a mark."""
    numbered = (f"{'>' if number in marked else ' '}{number:>5}  {line}" for number, line in enumerate(lines, start))
    return markdown.fence("\n".join(map(_cut, numbered)), "text")


def diff(difference: str) -> str:
    """The first lines of a unified diff."""
    return markdown.fence("\n".join(map(_cut, first(difference.splitlines(), _MOST_DIFF, "... {} more lines"))), "diff")


def _cut(line: str) -> str:
    return shortened(inert(line).replace("\n", "\\n"), _WIDEST - 3)
