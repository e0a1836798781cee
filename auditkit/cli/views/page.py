"""A ticket's file on a terminal: its headings and fences told apart by colour."""

from __future__ import annotations

from auditkit.cli.views.pager import page
from auditkit.cli.views.styles import BOLD, CYAN, DIM, SEVERITIES, STATUSES, WARNING, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WORDS = {**SEVERITIES, **STATUSES}


def print_page(text: str, notes: Mapping[int, str]) -> None:
    """Print a ticket's text, inert, with a note behind some of its lines; through a pager where it is longer
    than the screen.
    """
    from auditkit.model.text import inert

    page("\n".join(_lines(inert(text.removesuffix("\n")), notes)))


def _lines(text: str, notes: Mapping[int, str]) -> Iterator[str]:
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
