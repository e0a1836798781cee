"""Text from probes and targets as Markdown that stays what it is: a cell a cell, a paragraph a paragraph."""

from __future__ import annotations

import re

from auditkit.model.text import inert, inert_line

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
# What opens a block at the start of a line, also inside list items and quotes.
_BLOCK_START = re.compile(
    r"^((?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*)"
    r"(`{3,}|~{3,}|#{1,6}(?=[ \t]|$)|\||=+[ \t]*$|-+[ \t]*$|\*{3,}[ \t]*$)"
)
_UNSEEN = re.compile(r"<!--.*-->|\|[-: |]+\||-{3,}|`{3,}\w*|\s*")
_BACKTICKS = re.compile(r"`+")


def line(text: str) -> str:
    """`text` on one line, inert, with no HTML: for the inside of a paragraph or a heading."""
    return _TAG.sub(r"\\<", inert_line(text))


def cell(text: str) -> str:
    """`text` as a table cell: one line whose pipes separate nothing."""
    return line(text).replace("|", "\\|")


def code(text: str) -> str:
    """`text` as a code span, also in a table, whatever backticks and pipes it holds; "" stays ""."""
    content = inert_line(text).replace("|", "\\|")
    if not content:
        return ""
    ticks = "`" * (_longest_run(content) + 1)
    padding = " " if content.startswith("`") or content.endswith("`") else ""
    return f"{ticks}{padding}{content}{padding}{ticks}"


def fence(text: str, language: str = "") -> str:
    """`text` as a fenced block, its fence longer than any run of backticks inside."""
    content = inert(text).strip("\n")
    ticks = "`" * max(3, _longest_run(content) + 1)
    return f"{ticks}{language}\n{content}\n{ticks}"


def visible(text: str) -> list[str]:
    """Return the lines of a page that a reader sees: no blank ones, comments, rulers or fences."""
    return [part for part in text.split("\n") if not _UNSEEN.fullmatch(part)]


def opens_nothing(text: str) -> str:
    """A line of Markdown, escaped where it would open a heading, a list, a table, a fence or a rule."""
    # Four blanks would make code of the line, in which an escape would show.
    indented = re.sub(r"^(?: {4,}|[ ]*\t[ \t]*)", "   ", text.rstrip())
    return _BLOCK_START.sub(r"\1\\\2", indented)


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
