"""What only a terminal gets: colours of severity and status, tables that fit its width, and the user's pager."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from functools import cache

from auditkit.cli.output import say_styled, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ELLIPSIS = "…" if "utf" in (sys.stdout.encoding or "").lower() else "..."
BOLD, DIM, CYAN, OFF = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
WARNING = "\x1b[33m"
SEVERITIES = {"P0": "\x1b[1;91m", "P1": "\x1b[91m", "P2": WARNING, "P3": CYAN, "P4": DIM}
STATUSES = {
    "open": BOLD, "investigating": CYAN, "fix-in-progress": CYAN, "in-review": CYAN, "deferred": DIM,
    "fixed": "\x1b[32m", "closed": "\x1b[32m", "already-fixed": "\x1b[32m", "wont-fix": DIM, "not-a-bug": DIM,
    "duplicate": DIM,
}  # fmt: skip
_WORDS = {**SEVERITIES, **STATUSES}
_HEADS = {"severity": "sev", "mark": ""}
_GIVES_WAY = ("agent", "age", "assignee", "status")
"""Columns that a narrow terminal does without, the first one first."""
_GAP = "  "
_ESCAPE = re.compile("\x1b\\[[0-9;]*m")
_LEAST_TITLE = 20
_JOINTS = "_./-"


def print_table(table: Mapping[str, Sequence[str]], *, may_narrow: bool = True) -> None:
    """Print the columns below their names, a line for each ticket, through a pager where it is longer than the screen.

    Where it `may_narrow`, columns without a word are left out, and some where the terminal is narrow.
    """
    page("\n".join(table_lines(fitting(table) if may_narrow else table)))


def table_lines(shown: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The lines of a table as wide as the terminal, its names first; the last column ends between words."""
    *names, last = shown
    widths = [_width(name, shown[name]) for name in names]
    room = max(screen_width() - sum(widths) - len(_GAP) * len(widths), 1)
    yield _line([_head(name) for name in names], widths, [BOLD] * len(names), styled(_head(last), BOLD))
    for *words, text in zip(*shown.values(), strict=True):
        styles = [_style_of(name, word) for name, word in zip(names, words, strict=True)]
        yield _line(words, widths, styles, styled(cut(text, room), _style_of(last, text)))


def fitting(full: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Without the columns that say nothing, or would leave too little of the line for the last one."""
    table = {name: cells for name, cells in full.items() if any(cells)} or dict(full)
    screen = screen_width()
    wanted = max(_LEAST_TITLE, screen // 2)
    for name in (*_GIVES_WAY, ""):
        *others, last = table
        taken = sum(_width(other, table[other]) + len(_GAP) for other in others)
        if taken + min(wanted, _width(last, table[last])) <= screen:
            break
        table = {other: cells for other, cells in table.items() if other != name}
    return table


def _head(name: str) -> str:
    return _HEADS.get(name, name)


def _width(name: str, cells: Sequence[str]) -> int:
    return max(width_of(_head(name)), *map(width_of, cells)) if cells else width_of(_head(name))


def _style_of(name: str, word: str) -> str:
    if name in ("severity", "status"):
        return _WORDS.get(word, "")
    return WARNING if name == "mark" else ""


def _line(words: Sequence[str], widths: Sequence[int], styles: Sequence[str], title: str) -> str:
    cells = [
        styled(word, style if word else "") + " " * (width - width_of(word))
        for word, width, style in zip(words, widths, styles, strict=True)
    ]
    return _GAP.join([*cells, title]).rstrip()


def screen_width() -> int:
    """How many columns the terminal has."""
    return shutil.get_terminal_size().columns


def cut(text: str, width: int) -> str:
    """`text` in one line of at most `width` columns: what does not fit is left out between words, with an ellipsis."""
    if width_of(text) <= width:
        return text
    first = wrapped(text, max(width - len(ELLIPSIS), 1))[0]
    return first + ELLIPSIS


def page(text: str) -> None:
    """Show text whose escapes are our own: through `$PAGER` (or less) where it is longer than the screen.

    An empty `$PAGER` or `cat` means none. A pager that cannot be started is done without.
    """
    command = shlex.split(os.environ.get("PAGER", "less"))
    width, height = shutil.get_terminal_size()
    lines = sum(max(1, -(-len(_ESCAPE.sub("", line)) // max(width, 1))) for line in text.split("\n"))
    if lines < height or not command or command == ["cat"] or not _show(command, text):
        say_styled(text)


def _show(command: list[str], text: str) -> bool:
    # As git does: colours pass, and what fits stays on the screen.
    environment = {"LESS": "FRX", **os.environ}
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    try:
        pager.communicate(text.encode("utf-8", "backslashreplace") + b"\n")
    except BrokenPipeError:
        pass
    except KeyboardInterrupt:
        # Ctrl-C is the pager's to answer.
        pager.wait()
    return True


def styled(text: str, style: str) -> str:
    """`text` between a style and its end; as it is where there is no style, or nobody wants colours."""
    return f"{style}{text}{OFF}" if style and text and _has_colour() else text


_has_colour = cache(wants_colour)


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
    """A word in pieces of at most `width` columns, but of one character at least; behind a joint where it has one."""
    pieces = []
    start = taken = 0
    for end, char in enumerate(word):
        wide = width_of(char)
        if taken + wide > width and end > start:
            joint = max(word.rfind(mark, start, end) for mark in _JOINTS) + 1
            last = joint if joint > start else end
            pieces.append(word[start:last])
            start, taken = last, width_of(word[last:end])
        taken += wide
    return [*pieces, word[start:]]
