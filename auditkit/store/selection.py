"""Choosing among rows: filters, what blocks what, orders."""

from __future__ import annotations

from auditkit.store import rows as at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any

    from auditkit.store.rows import Row

    Filter = Callable[[Row], bool]

ORDERS = ("id", "severity", "status", "created", "updated", "age")
UNANSWERED = "needs-answer"
AGREEMENTS = ("unanimous", "majority", "split", "partial", "none", UNANSWERED)
"""What `agreed` takes: the kinds of consensus, and what a majority says that nobody has answered."""

_LAST = "~"
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


def among(field: int, wanted: Collection[Any]) -> Filter:
    """Rows whose field is one of `wanted`."""
    return lambda row: row[field] in wanted


def assigned_to(names: Iterable[str]) -> Filter:
    """Rows whose assignee is one of `names`, whatever the case."""
    wanted = {name.strip().casefold() for name in names}
    return lambda row: row[at.ASSIGNEE].strip().casefold() in wanted


def is_blocked(blocking: Collection[str], wanted: bool) -> Filter:
    """Rows whose id is among the blocked ones, or is not."""
    return lambda row: (row[at.ID] in blocking) is wanted


def in_domain(domains: Iterable[str]) -> Filter:
    """Rows of one of the domains, or of a part of it: `simic` has `simic/telemetry`."""
    wanted = [domain.strip("/ ").casefold() for domain in domains]
    return lambda row: any(
        domain.casefold() == name or domain.casefold().startswith(f"{name}/")
        for domain in row[at.DOMAINS]
        for name in wanted
    )


def in_category(words: Iterable[str]) -> Filter:
    """Rows with a ticked category that holds one of the words."""
    wanted = [word.casefold() for word in words]
    return lambda row: any(word in category.casefold() for category in row[at.CATEGORIES] for word in wanted)


def with_file(patterns: Iterable[str]) -> Filter:
    """Rows that name a file whose path holds the text, or matches the pattern (`*.py`) from its start or a folder."""
    wanted = list(patterns)
    return lambda row: any(_is_file(path, pattern) for path in row[at.FILES] for pattern in wanted)


def _is_file(path: str, pattern: str) -> bool:
    if not any(mark in pattern for mark in "*?["):
        return pattern in path
    from fnmatch import fnmatchcase

    return fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}")


def with_text(texts: Iterable[str]) -> Filter:
    """Rows whose title or summary holds every one of the texts, whatever the case."""
    wanted = [text.casefold() for text in texts]
    return lambda row: all(text in row[at.TITLE].casefold() or text in row[at.SUMMARY].casefold() for text in wanted)


def reviewed(reviewers: Collection[str], verdicts: Collection[str]) -> Filter:
    """Rows with a review by one of the reviewers (any, where none is named) that gives one of the verdicts."""
    names = {name.casefold() for name in reviewers}
    return lambda row: any(
        (not names or who.casefold() in names) and (not verdicts or verdict in verdicts)
        for who, verdict in row[at.REVIEWS]
    )


def agreed(kinds: Collection[str]) -> Filter:
    """Rows with one of these kinds of consensus, or with an open question where `needs-answer` is among them."""
    return lambda row: row[at.AGREEMENT] in kinds or (UNANSWERED in kinds and row[at.ANSWER] != "")


def ordered(rows: Sequence[Row], order: str, statuses: Sequence[str] = ()) -> list[Row]:
    """The rows in an order of `ORDERS`; equals stay by id. `age` is the oldest first, as `created` is.

    `statuses` are all of them in the order of a ticket's life. What is not known comes last.
    """
    rank = {status: number for number, status in enumerate(statuses)}
    keys: dict[str, Callable[[Row], Any]] = {
        "severity": lambda row: row[at.SEVERITY] or _LAST,
        "status": lambda row: rank.get(row[at.STATUS], len(rank)),
        "created": lambda row: dated(row[at.CREATED]),
        "age": lambda row: dated(row[at.CREATED]),
        "updated": lambda row: dated(row[at.UPDATED]),
    }
    return sorted(rows, key=keys[order]) if order in keys else list(rows)


def dated(text: str) -> str:
    """A date to sort by: one that is none comes last."""
    is_date = len(text) == 10 and text[4] == text[7] == "-" and text.replace("-", "").isdigit()
    return text if is_date else _LAST


def most_worth(rows: Iterable[Row], limit: int) -> list[Row]:
    """The rows to take first: by severity, then how far the reviewers stand behind it, then age, then id."""
    by_severity: dict[str, list[Row]] = {}
    for row in rows:
        by_severity.setdefault(row[at.SEVERITY] or _LAST, []).append(row)
    found: list[Row] = []
    for severity in sorted(by_severity):
        if len(found) < limit:
            found += sorted(by_severity[severity], key=_worth)
    return found[:limit]


def _worth(row: Row) -> tuple[Any, ...]:
    return (_doubt(row), dated(row[at.CREATED]), row[at.ORDER], row[at.PATH])


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
