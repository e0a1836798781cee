"""What only a terminal gets: colours of severity and status, tables that fit its width, and the user's pager."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import unicodedata

from auditkit.cli.output import say_styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from auditkit.store.listing.rows import Line

BOLD, DIM, CYAN, OFF = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
WARNING = "\x1b[33m"
SEVERITIES = {"P0": "\x1b[1;91m", "P1": "\x1b[91m", "P2": WARNING, "P3": CYAN, "P4": DIM}
STATUSES = {
    "open": BOLD, "investigating": CYAN, "fix-in-progress": CYAN, "in-review": CYAN, "deferred": DIM,
    "fixed": "\x1b[32m", "closed": "\x1b[32m", "already-fixed": "\x1b[32m", "wont-fix": DIM, "not-a-bug": DIM,
    "duplicate": DIM,
}  # fmt: skip
_WORDS = {**SEVERITIES, **STATUSES}
_HEAD = ("id", "sev", "status", "agent", "", "title")
_GAP = "  "
_LEAST_TITLE = 20


def print_table(lines: Sequence[Line]) -> None:
    """Print the table, through a pager where it is longer than the screen."""
    page("\n".join(_table_lines(lines)))


def _table_lines(lines: Sequence[Line]) -> Iterator[str]:
    columns = list(zip(_HEAD, *lines, strict=True))[:-1]
    # The mark's column is only there where some ticket has one.
    widths = [max(map(width_of, column)) for column in columns]
    taken = sum(width + len(_GAP) for width in widths if width)
    room = max(shutil.get_terminal_size().columns - taken, _LEAST_TITLE)
    yield _line(_HEAD, widths, [BOLD] * 5, styled(_HEAD[-1], BOLD))
    for words in lines:
        styles = ["", SEVERITIES.get(words[1], ""), STATUSES.get(words[2], ""), "", WARNING]
        first, *others = wrapped(words[-1], room)
        yield _line(words, widths, styles, first)
        yield from (" " * taken + other for other in others)


def _line(words: Sequence[str], widths: Sequence[int], styles: Sequence[str], title: str) -> str:
    cells = [
        styled(word, style if word else "") + " " * (width - width_of(word))
        for word, width, style in zip(words[:-1], widths, styles, strict=True)
        if width
    ]
    return _GAP.join([*cells, title])


def print_page(text: str, notes: Mapping[int, str]) -> None:
    """Print a ticket's text, inert, with a note behind some of its lines; through a pager where it is longer
    than the screen.
    """
    from auditkit.model.text import inert

    page("\n".join(_page_lines(inert(text.removesuffix("\n")), notes)))


def _page_lines(text: str, notes: Mapping[int, str]) -> Iterator[str]:
    is_code = False
    for number, line in enumerate(text.split("\n"), start=1):
        is_fence = line.lstrip().startswith(("```", "~~~"))
        is_code ^= is_fence
        shown = styled(line, _style(line, is_code or is_fence)) if line else line
        yield f"{shown}  {styled(notes[number], WARNING)}" if number in notes else shown


def _style(line: str, is_code: bool) -> str:
    if is_code:
        return DIM
    if line.startswith("#"):
        return BOLD + CYAN
    if line.startswith(("| **Severity** |", "| **Status** |")):
        return _WORDS.get(line.split("|")[2].strip(" `*"), "")
    return ""


def page(text: str) -> None:
    """Show text whose escapes are our own: through `$PAGER` (or less) where it is longer than the screen.

    An empty `$PAGER` or `cat` means none. A pager that cannot be started is done without.
    """
    command = shlex.split(os.environ.get("PAGER", "less"))
    width, height = shutil.get_terminal_size()
    lines = sum(max(1, -(-len(line) // max(width, 1))) for line in text.split("\n"))
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
