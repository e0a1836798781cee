"""What lists need of a ticket, as one plain tuple: cheap to keep, to load and to sort by the thousands.

The tuple, rather than a dataclass, is what `marshal` reads back at once, ten thousand in a few milliseconds.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from auditkit.model.tickets.ticket import BrokenTicket

    Row = tuple[Any, ...]
    # Id, severity, status, agent, a mark where reviewers wait for an answer, and title; all inert.
    Line = tuple[str, ...]
    # Of a ticket with a word that nobody knows: its number and id, what the word is of, and the word.
    Oddity = tuple[int, str, str, str]

# Places in a row. `ORDER` is batch, agent code and number of the id; `SEVERITY` and `STATUS` are "" where the
# word is not known; `SHOWN` is the ticket's line of the list; `IS_STALE` tells of a review that judged other
# evidence; `FOLDER` is that of an unfinished ticket which lies among finished ones, "" for every other; `VOTES` are
# the verdicts that count, "" for one that is not known; `FURTHER` are pairs of a label in lower case and a text, for
# the project's own rows of the metadata; `LINES` is the cell Line(s) as written.
(
    PATH, ID, ORDER, TITLE, SEVERITY, SEVERITY_WRITTEN, STATUS, STATUS_WRITTEN, IS_FINISHED, BATCH, AGENT, AGENT_CODE,
    DOMAINS, ASSIGNEE, CREATED, UPDATED, FILES, SUMMARY, CATEGORIES, REVIEWS, BLOCKS, AGREEMENT, VERDICT,
    ANSWER, SHOWN, IS_STALE, FOLDER, VOTES, FINGERPRINTS, LABELS, DUE, FURTHER, LINES,
) = range(33)  # fmt: skip
FIELDS = LINES + 1

LIFE = (
    "open", "investigating", "fix-in-progress", "in-review", "deferred", "fixed", "closed", "wont-fix", "already-fixed",
    "not-a-bug", "duplicate",
)  # fmt: skip
"""Every status in the order of a ticket's life, as `model.tickets.ticket.Status` has them, which loads slowly."""


def shown(*words: str) -> tuple[str, ...]:
    """Words as they may stand on a terminal; each that is harmless comes back as the same object."""
    return tuple(word if _is_inert_line(word) else _inert_line(word) for word in words)


def mark_of(answer: str) -> str:
    """What stands before the title of a ticket whose reviewers wait for an answer."""
    return "!" if answer else ""


def aligned(lines: Sequence[Line]) -> str:
    """The lines of a list below each other, each column as wide as its widest word."""
    if not lines:
        return ""
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns[:-1]]
    # The mark's column is only there where some ticket has one.
    form = "  ".join(f"%-{width}s" if width else "%s" for width in widths[:4])
    form += "  %-1s  %s" if widths[4] else "%s  %s"
    return "\n".join([(form % line).rstrip() for line in lines])


def oddities_of(rows: Sequence[Row]) -> list[Oddity]:
    """Every status and severity that nobody knows."""
    found = []
    for number, row in enumerate(rows):
        if not row[STATUS]:
            found.append((number, row[ID], "status", row[STATUS_WRITTEN]))
        if not row[SEVERITY]:
            found.append((number, row[ID], "severity", row[SEVERITY_WRITTEN]))
    return found


def broken_row(broken: BrokenTicket) -> Row:
    """A file that is no ticket, as a tuple: path, place, message, source, and its further problems."""
    also = tuple(broken_row(one) for one in broken.also)
    return (broken.path.as_posix(), broken.line, broken.column, broken.message, broken.source, also)


def broken_of(row: Row) -> BrokenTicket:
    """What `broken_row` was made from."""
    from pathlib import PurePath

    from auditkit.model.tickets.ticket import BrokenTicket

    path, line, column, message, source, also = row
    return BrokenTicket(PurePath(path), line, column, message, source, tuple(map(broken_of, also)))


def _is_inert_line(word: str) -> bool:
    return word.isascii() and word.isprintable() and "  " not in word and word == word.strip()


def _inert_line(word: str) -> str:
    from auditkit.model.text import inert_line

    return inert_line(word)
