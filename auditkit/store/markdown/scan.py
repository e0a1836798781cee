"""A line scanner that finds headings and markers in Markdown bytes and is not fooled by fences.

A full Markdown parser takes about ten times as long on thousands of tickets. This one knows what
CommonMark says of fenced code (also inside list items) and of HTML comments, and nothing else; a test
compares it with a real parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

EVIDENCE_START = b"<!-- auditkit:evidence -->"
EVIDENCE_END = b"<!-- /auditkit:evidence -->"


class Span(NamedTuple):
    """Bytes `start` to `end` (exclusive) of a file."""

    start: int
    end: int

    def moved(self, by: int) -> Span:
        """The same length of bytes further on."""
        return Span(self.start + by, self.end + by)


class Heading(NamedTuple):
    """A `#` heading: its level, its text as written, its line, and the end of its section.

    The section ends where the next heading of the same or a higher level starts.
    """

    level: int
    text: str
    line: Span
    section_end: int


class Marker(NamedTuple):
    """A line that starts or ends an evidence block; `line` is without the line's end."""

    is_start: bool
    line: Span


class Scan(NamedTuple):
    """What was found, in the order of the file."""

    headings: tuple[Heading, ...]
    hidden: tuple[Span, ...]
    markers: tuple[Marker, ...]
    conflicts: tuple[int, ...]

    def hides(self, position: int) -> bool:
        """Whether the byte at `position` is in a fence or a comment."""
        return any(span.start <= position < span.end for span in self.hidden)


# One alternative per thing that matters at the start of a line; everything else is skipped over. With the line end
# before it as its first byte, the pattern is found several times as fast as with `^`; what the second look ahead
# leaves out (a list item without a fence) takes a third of the time.
_EVENT = re.compile(
    rb"\n(?=[ \t\#`~<*+0-9\xef-])(?=[\#`~<\xef]|[ \t]*+(?:[\#`~<]|(?:[-+*]|\d++[.)])[ \t]++[`~]))"
    rb"(?:(?<=\A\n)\xef\xbb\xbf)?(?:"
    rb"(?P<indent>[ \t]*)(?:(?P<item>[-+*]|\d{1,9}[.)])(?P<gap>[ \t]+))?(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})"
    rb"|\ {0,3}(?P<hashes>\#{1,6})(?=[ \t\r\n]|\Z)[ \t]*(?P<heading>[^\r\n]*)"
    rb"|\ {0,3}(?P<comment><!--)"
    rb"|(?P<conflict><{7})\ "
    rb")",
    re.MULTILINE | re.VERBOSE,
)
_LIST_ITEM = re.compile(rb"([ \t]*)(?:[-+*]|\d{1,9}[.)])([ \t]+)\S")
_TAB_STOP = 4


def scan(data: bytes) -> Scan:
    """Headings, hidden stretches (fences and comments), evidence markers and merge conflicts of `data`."""
    heads: list[tuple[int, str, Span]] = []
    hidden: list[Span] = []
    markers: list[Marker] = []
    conflicts: list[int] = []
    has_returns = b"\r" in data
    # What is found in `text` starts, without its line end, where it does in `data`.
    text, position = b"\n" + data, 0
    for event in _EVENT.finditer(text):
        start = event.start()
        if start < position:
            continue
        what = event.lastgroup
        # A heading's text ends at its line's end, but for a carriage return that ends none.
        is_whole = what == "heading" and not has_returns
        line = _span((start, event.end() - 1 if is_whole else line_end(data, start)))
        if what == "heading":
            heads.append((len(event["hashes"]), _text(event["heading"]), line))
        elif what == "fence":
            container = _fence_container(data, event)
            if container is not None:
                position = _end_of_fence(data, next_line(data, line.end), event["fence"], container)
                hidden.append(Span(start, position))
        elif what == "comment":
            marker = _marker(data, line)
            if marker is not None:
                markers.append(marker)
            else:
                closed = data.find(b"-->", event.end() - 1)
                position = next_line(data, closed) if closed >= 0 else len(data)
                hidden.append(Span(line.start, position))
        else:
            conflicts.append(line.start)
    return Scan(_with_sections(heads, len(data)), tuple(hidden), tuple(markers), tuple(conflicts))


def line_end(data: bytes, start: int) -> int:
    """Where the line at `start` ends, before its `\\n` or `\\r\\n`."""
    end = data.find(b"\n", start)
    if end < 0:
        end = len(data)
    return end - 1 if end > start and data[end - 1 : end] == b"\r" else end


def next_line(data: bytes, position: int) -> int:
    """Where the line after the one at `position` starts, or the end of `data`."""
    end = data.find(b"\n", position)
    return len(data) if end < 0 else end + 1


def _with_sections(heads: list[tuple[int, str, Span]], end: int) -> tuple[Heading, ...]:
    headings: list[Heading] = []
    open_until = [end] * 7
    for level, text, line in reversed(heads):
        headings.append(_heading((level, text, line, open_until[level])))
        open_until[level:] = [line[0]] * (7 - level)
    headings.reverse()
    return tuple(headings)


# A class that is called makes a tuple in twice the time.
_span: Callable[[tuple[int, int]], Span] = partial(tuple.__new__, Span)
_heading: Callable[[tuple[int, str, Span, int]], Heading] = partial(tuple.__new__, Heading)


@lru_cache(maxsize=1024)
def _text(heading: bytes) -> str:
    """A heading's text; most are those of a template."""
    return heading.decode("utf-8", "replace").strip()


def _marker(data: bytes, line: Span) -> Marker | None:
    text = data[line.start : line.end].strip()
    if text in (EVIDENCE_START, EVIDENCE_END):
        return Marker(text == EVIDENCE_START, line)
    return None


def _width(blanks: bytes) -> int:
    column = 0
    for blank in blanks:
        column += _TAB_STOP - column % _TAB_STOP if blank == 0x09 else 1
    return column


def _fence_container(data: bytes, event: re.Match[bytes]) -> int | None:
    """The column of the list item that holds the fence, 0 at top level; None where it is no fence.

    Four blanks or more make indented code, unless a list item starts that far to the right.
    """
    if not event["indent"] and event["item"] is None:
        return 0
    indent = _width(event["indent"])
    container = _list_column(data, event.start(), indent)
    if event["item"] is not None:
        if indent - container > 3 or _width(event["gap"]) > _TAB_STOP:
            return None
        return indent + len(event["item"]) + _width(event["gap"])
    return container if indent - container <= 3 else None


def _list_column(data: bytes, before: int, indent: int) -> int:
    """The content column of the innermost list item, above `before`, that reaches text at `indent`."""
    limit = indent
    while before > 0 and limit > 0:
        start = data.rfind(b"\n", 0, before - 1) + 1
        text = data[start : before - 1]
        before = start
        if not text.strip():
            continue
        item = _LIST_ITEM.match(text)
        if item is not None:
            column = _width(item[1]) + len(text[item.end(1) : item.start(2)]) + _width(item[2])
            if column <= limit:
                return column
        # A line further to the left ends every list that starts to its right.
        limit = min(limit, _width(text[: len(text) - len(text.lstrip(b" \t"))]))
    return 0


def _end_of_fence(data: bytes, start: int, fence: bytes, container: int) -> int:
    """Where the line after the closing fence starts; an open fence runs to the end of its container."""
    for line in _closing(fence, container > 0).finditer(data, start - 1):
        indent = _width(line["indent"])
        if indent < container:
            return line.start() + 1
        if line["fence"] is not None and indent - container <= 3:
            return next_line(data, line.end())
    return len(data)


@lru_cache(maxsize=64)
def _closing(fence: bytes, is_in_list: bool) -> re.Pattern[bytes]:
    """The lines that may end a fence: those that close it and, in a list item, all that are not blank."""
    closed = rb"(?P<fence>" + re.escape(fence[:1]) + b"{%d,}" % len(fence) + rb"[ \t]*\r?$)"
    text = rb"|(?=[ \t\r\f\v]*+\S)" if is_in_list else b""
    return re.compile(rb"\n(?P<indent>[ \t]*+)(?:" + closed + text + rb")", re.MULTILINE)
