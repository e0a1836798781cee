"""What blocks what, and which ticket to take next."""

from __future__ import annotations

from auditkit.store.listing import rows as at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from auditkit.store.listing.rows import Row

LAST = "~"
"""Sorts behind every word and date."""


def blockers(rows: Iterable[Row]) -> dict[str, list[str]]:
    """By id of an unfinished ticket, the unfinished tickets that block it, whichever of the two says so."""
    unfinished = {row[at.ID]: row for row in rows if not row[at.IS_FINISHED]}
    found: dict[str, list[str]] = {}
    for ticket_id, row in unfinished.items():
        for kind, other in row[at.BLOCKS]:
            if other not in unfinished or other == ticket_id:
                continue
            blocked, blocker = (ticket_id, other) if kind == "blocked-by" else (other, ticket_id)
            if blocker not in found.setdefault(blocked, []):
                found[blocked].append(blocker)
    return found


def queue(rows: Sequence[Row], blocked: Collection[str]) -> tuple[list[int], list[int]]:
    """Which tickets to take, the first one first, and which to take once nothing blocks them.

    First by severity, then how far the reviewers stand behind it, then age, then id; last of all what lies in a folder
    for finished tickets, because it may be finished.
    """
    waiting = [number for number, row in enumerate(rows) if is_waiting(row)]
    free = [number for number in waiting if rows[number][at.ID] not in blocked]
    held = [number for number in waiting if rows[number][at.ID] in blocked]
    return sorted(free, key=lambda number: _worth(rows[number])), held


def _worth(row: Row) -> tuple[bool, str, int, str]:
    return (row[at.FOLDER] != "", row[at.SEVERITY] or LAST, _doubt(row), dated(row[at.CREATED]))


def _doubt(row: Row) -> int:
    """From all endorse it (0) to a majority objects or waits for an answer (5)."""
    if row[at.ANSWER] or row[at.VERDICT] == "OBJECT":
        return 5
    if row[at.VERDICT] in ("ENDORSE", "REFINE"):
        return {"unanimous": 0, "majority": 1}.get(row[at.AGREEMENT], 2)
    return 4 if row[at.AGREEMENT] == "split" else 3


def is_waiting(row: Row) -> bool:
    """Whether somebody may take the ticket: neither finished nor put off."""
    return not row[at.IS_FINISHED] and row[at.STATUS] != "deferred"


def dated(text: str) -> str:
    """A date to sort by: one that is none comes last."""
    is_date = len(text) == 10 and text[4] == text[7] == "-" and text.replace("-", "").isdigit()
    return text if is_date else LAST
