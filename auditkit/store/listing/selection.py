"""Choosing among the tickets of an index by their numbers: filters and orders."""

from __future__ import annotations

from auditkit.store.listing import rows as at
from auditkit.store.listing.queue import LAST, dated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any

    from auditkit.store.listing.index import Index

    # Columns, and what the values of one ticket in them have to pass.
    Filter = tuple[Sequence[list[Any]], Callable[..., Any]]

ORDERS = ("id", "severity", "status", "created", "updated", "age", "due")
UNANSWERED = "needs-answer"
AGREEMENTS = ("unanimous", "majority", "split", "partial", "none", UNANSWERED)
"""What `agreed` takes: the kinds of consensus, and what a majority says that nobody has answered."""


def passing(numbers: Sequence[int], filters: Iterable[Filter]) -> Sequence[int]:
    """Those of `numbers` that pass every filter."""
    for columns, passes in filters:
        if len(columns) == 1:
            (column,) = columns
            numbers = [number for number in numbers if passes(column[number])]
        else:
            numbers = [number for number in numbers if passes(*[column[number] for column in columns])]
    return numbers


def among(index: Index, field: int, wanted: Collection[Any]) -> Filter:
    """Tickets whose field is one of `wanted`."""
    return [index.column(field)], wanted.__contains__


def assigned_to(index: Index, names: Iterable[str]) -> Filter:
    """Tickets whose assignee is one of `names`, whatever the case."""
    wanted = {name.strip().casefold() for name in names}
    return [index.column(at.ASSIGNEE)], lambda assignee: assignee.strip().casefold() in wanted


def is_blocked(index: Index, wanted: bool) -> Filter:
    """Tickets that an unfinished one blocks, or those that none does."""
    blocked = index.blocked
    return [index.column(at.ID)], lambda ticket_id: (ticket_id in blocked) is wanted


def in_domain(index: Index, domains: Iterable[str]) -> Filter:
    """Tickets of one of the domains, or of a part of it: `simic` has `simic/telemetry`."""
    wanted = [domain.strip("/ ").casefold() for domain in domains]
    return [index.column(at.DOMAINS)], lambda found: any(
        domain.casefold() == name or domain.casefold().startswith(f"{name}/") for domain in found for name in wanted
    )


def in_category(index: Index, words: Iterable[str]) -> Filter:
    """Tickets with a ticked category that holds one of the words."""
    wanted = [word.casefold() for word in words]
    return [index.column(at.CATEGORIES)], lambda found: any(
        word in category.casefold() for category in found for word in wanted
    )


def with_file(index: Index, patterns: Iterable[str]) -> Filter:
    """Tickets with a file whose path holds the text, or matches the pattern (`*.py`) from its start or a folder."""
    wanted = list(patterns)
    return [index.column(at.FILES)], lambda paths: any(_is_file(path, pattern) for path in paths for pattern in wanted)


def _is_file(path: str, pattern: str) -> bool:
    if not any(mark in pattern for mark in "*?["):
        return pattern in path
    from fnmatch import fnmatchcase

    return fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}")


def with_text(index: Index, text: str) -> Filter:
    """Tickets whose title or summary holds the text, whatever the case."""
    wanted = text.casefold()
    return [index.folded], lambda folded: wanted in folded


def reviewed(index: Index, reviewers: Collection[str], verdicts: Collection[str]) -> Filter:
    """Tickets with a review by one of the reviewers (any, where none is named) that gives one of the verdicts."""
    names = {name.casefold() for name in reviewers}
    return [index.column(at.REVIEWS)], lambda reviews: any(
        (not names or who.casefold() in names) and (not verdicts or verdict in verdicts) for who, verdict in reviews
    )


def agreed(index: Index, kinds: Collection[str]) -> Filter:
    """Tickets with one of these kinds of consensus, or with an open question where `needs-answer` is among them."""
    asks = UNANSWERED in kinds
    columns = [index.column(at.AGREEMENT), index.column(at.ANSWER)]
    return columns, lambda agreement, answer: agreement in kinds or (asks and answer != "")


def is_stale(index: Index) -> Filter:
    """Tickets with a review that judged other evidence."""
    return [index.column(at.IS_STALE)], bool


def ordered(index: Index, numbers: Sequence[int], order: str) -> Sequence[int]:
    """The tickets in an order of `ORDERS`; equals stay as they are. `age` is the oldest first, as `created` is.

    A status goes by a ticket's life. What is not known comes last.
    """
    rank = {status: number for number, status in enumerate(at.LIFE)}
    keys: dict[str, tuple[int, Callable[[Any], Any]]] = {
        "severity": (at.SEVERITY, lambda severity: severity or LAST),
        "status": (at.STATUS, lambda status: rank.get(status, len(rank))),
        "created": (at.CREATED, dated),
        "age": (at.CREATED, dated),
        "updated": (at.UPDATED, dated),
        "due": (at.DUE, dated),
    }
    if order not in keys:
        return numbers
    field, key = keys[order]
    column = index.column(field)
    # Thousands of tickets share a few hundred dates.
    keyed = {value: key(value) for value in set(column)}
    return sorted(numbers, key=lambda number: keyed[column[number]])
