"""Rows as a table on a terminal: coloured, with titles that wrap."""

from __future__ import annotations

import shutil

from auditkit.cli.views.pager import page
from auditkit.cli.views.styles import BOLD, SEVERITIES, STATUSES, WARNING, styled, width_of, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditkit.store.listing.rows import Line

_HEAD = ("id", "sev", "status", "agent", "", "title")
_GAP = "  "
_LEAST_TITLE = 20


def print_table(lines: Sequence[Line]) -> None:
    """Print the table, through a pager where it is longer than the screen."""
    page("\n".join(_lines(lines)))


def _lines(lines: Sequence[Line]) -> Iterator[str]:
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
