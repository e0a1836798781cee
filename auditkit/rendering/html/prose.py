"""Markdown that people wrote, as much of it as a page shows: paragraphs, tables, code; no text becomes markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.model.text import CODE_SPAN, inert
from auditkit.rendering.html.svg import Markup

_FENCE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^ {0,3}(?P=fence)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_UNSEEN = re.compile(r"^</?(?:details|summary)>.*$|^<!--.*?-->$|^-{3,}[ \t]*$", re.MULTILINE)
_SUMMARY = re.compile(r"^<summary>(.*?)</summary>[ \t]*$", re.MULTILINE)
_TABLE = re.compile(r"^\|.*\|[ \t]*\n\|[-:| \t]+\|[ \t]*\n(?:\|.*\|[ \t]*(?:\n|\Z))*", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*)$", re.MULTILINE)
_CELLS = re.compile(r"(?<!\\)\|")
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")


@dataclass(frozen=True)
class Part:
    """A piece of a document: `prose`, a `table` (its rows, the head first), or code in the language `kind`."""

    kind: str
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


def parts_of(text: str) -> tuple[Part, ...]:
    """The document in order; tables without a value in them are left out."""
    return tuple(_parts(inert(text)))


def _parts(text: str) -> Iterator[Part]:
    position = 0
    for match in _FENCE.finditer(text):
        yield from _unfenced(text[position : match.start()])
        yield Part(match["language"] or "code", match["code"].rstrip("\n"))
        position = match.end()
    yield from _unfenced(text[position:])


def _unfenced(text: str) -> Iterator[Part]:
    text = _UNSEEN.sub("", _SUMMARY.sub(r"**\1**", text))
    position = 0
    for match in _TABLE.finditer(text):
        yield from _prose(text[position : match.start()])
        head, _, *rows = [
            tuple(cell.strip().replace("\\|", "|") for cell in _CELLS.split(line)[1:-1])
            for line in match[0].splitlines()
        ]
        if any(cell for row in rows for cell in row[1:]):
            yield Part("table", rows=(head, *rows))
        position = match.end()
    yield from _prose(text[position:])


def _prose(text: str) -> Iterator[Part]:
    for paragraph in re.split(r"\n[ \t]*\n", _HEADING.sub(r"\n**\1**\n", text)):
        if paragraph.strip():
            yield Part("prose", paragraph.strip("\n"))


def inline(text: str) -> Markup:
    """One paragraph or cell, its code spans and bold words as such, all else as it is written."""
    text = inert(text)
    done, position = [], 0
    for match in CODE_SPAN.finditer(text):
        done += [_bold(text[position : match.start()]), f"<code>{html.escape(match[2].strip())}</code>"]
        position = match.end()
    return Markup("".join([*done, _bold(text[position:])]))


def _bold(text: str) -> str:
    return _BOLD.sub(r"<b>\1</b>", html.escape(text))
