"""Colours of severity and status, and how wide text is on a terminal."""

from __future__ import annotations

import unicodedata

BOLD, DIM, CYAN, OFF = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
WARNING = "\x1b[33m"
SEVERITIES = {"P0": "\x1b[1;91m", "P1": "\x1b[91m", "P2": WARNING, "P3": CYAN, "P4": DIM}
STATUSES = {
    "open": BOLD, "investigating": CYAN, "fix-in-progress": CYAN, "in-review": CYAN, "deferred": DIM,
    "fixed": "\x1b[32m", "closed": "\x1b[32m", "already-fixed": "\x1b[32m", "wont-fix": DIM, "not-a-bug": DIM,
    "duplicate": DIM,
}  # fmt: skip


def styled(text: str, style: str) -> str:
    """`text` between a style and its end; as it is where there is no style."""
    return f"{style}{text}{OFF}" if style else text


def width_of(text: str) -> int:
    """How many columns inert text takes: wide characters two, marks above others none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, broken at blanks where there are any."""
    lines: list[str] = []
    line, taken = "", 0
    for word in text.split(" "):
        wide = width_of(word)
        if line and taken + 1 + wide > width:
            lines.append(line)
            line, taken = "", 0
        line, taken = (f"{line} {word}", taken + 1 + wide) if line else (word, wide)
        if taken > width:
            *whole, line = _cut(line, width)
            lines += whole
            taken = width_of(line)
    return [*lines, line] if line or not lines else lines


def _cut(word: str, width: int) -> list[str]:
    """A word in pieces of at most `width` columns, but of one character at least."""
    pieces = []
    start = taken = 0
    for end, char in enumerate(word):
        wide = width_of(char)
        if taken + wide > width and end > start:
            pieces.append(word[start:end])
            start, taken = end, 0
        taken += wide
    return [*pieces, word[start:]]
