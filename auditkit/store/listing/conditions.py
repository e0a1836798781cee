"""Conditions such as `label=amp`: the words of `ticket list`'s filters, and any row of the metadata, as filters."""

from __future__ import annotations

import operator
import re

from auditkit.errors import BadInputError, nearest_names
from auditkit.store.listing import rows as at
from auditkit.store.listing import selection as sel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from auditkit.store.listing.index import Index
    from auditkit.store.listing.selection import Filter

    ByOption = Callable[[str, Sequence[str]], Filter]

_CONDITION = re.compile(r"\s*([^=<>!~]+?)\s*(!=|<=|>=|=|<|>|~)(.*)", re.DOTALL)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ORDERED = {"severity": at.SEVERITY, "created": at.CREATED, "updated": at.UPDATED, "due": at.DUE, "batch": at.BATCH}
_TEXTS = {
    "id": at.ID, "title": at.TITLE, "summary": at.SUMMARY, "assignee": at.ASSIGNEE, "path": at.PATH, "due": at.DUE,
    "created": at.CREATED, "updated": at.UPDATED, "status": at.STATUS, "severity": at.SEVERITY, "agent": at.AGENT,
}  # fmt: skip
_LISTED = (
    "status", "severity", "batch", "agent", "domain", "category", "assignee", "file", "text", "reviewer", "verdict",
    "consensus",
)  # fmt: skip
_ALONE = ("blocked", "unblocked", "stale")


def filters_of(index: Index, conditions: Iterable[str], by_option: ByOption) -> list[Filter]:
    """What each condition lets pass: `severity=P0,P1`, `label!=flaky`, `due<2026-12-01`, `title~norm`, `unblocked`.

    Values with commas are alternatives, and one that is empty is a field that says nothing. `by_option` is the filter
    of an option of `ticket list` with these words. Raises BadInputError.
    """
    return [_filter(index, condition, by_option) for condition in conditions]


def speaks_of_status(conditions: Iterable[str]) -> bool:
    """Whether a condition says which statuses are meant, so that finished tickets may be among them."""
    return any((match := _CONDITION.fullmatch(one)) and match[1].casefold() == "status" for one in conditions)


def _filter(index: Index, condition: str, by_option: ByOption) -> Filter:
    word = condition.strip().casefold()
    if word in _ALONE:
        return sel.is_stale(index) if word == "stale" else sel.is_blocked(index, word == "blocked")
    match = _CONDITION.fullmatch(condition)
    if match is None:
        raise _no_condition(condition)
    name, sign, value = match[1].casefold(), match[2], match[3].strip()
    if sign in _ORDERS:
        return _ordered(index, condition, name, sign, value)
    values = [part.strip() for part in value.split(",")]
    for part in values[1:]:
        if (another := _CONDITION.fullmatch(part)) and another[1].casefold() in _LISTED:
            raise _no_condition(condition, f"--where {part} is a condition of its own")
    found = _holding(index, name, values) if sign == "~" else _equal(index, name, values, by_option)
    return (found[0], _neither(found[1])) if sign == "!=" else found


def _neither(passes: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: not passes(*given)


def _ordered(index: Index, condition: str, name: str, sign: str, value: str) -> Filter:
    """What is known and comes before or after the value: P0 before P1, and dates as they are written."""
    field = _ORDERED.get(name)
    if field is None:
        raise _no_condition(condition, f"{', '.join(_ORDERED)} have an order")
    compare = _ORDERS[sign]
    if name == "batch":
        if not re.fullmatch(r"\d{1,9}", value):
            raise _no_condition(condition, "batch<9")
        return [index.column(field)], lambda batch: compare(batch, int(value))
    pattern = r"P[0-4]" if name == "severity" else r"\d{4}(-\d{2}){0,2}"
    if not re.fullmatch(pattern, value.upper()):
        raise _no_condition(condition, "severity<=P1" if name == "severity" else f"{name}<2026-12-01")
    return [index.column(field)], lambda said: bool(said) and compare(said, value.upper())


def _holding(index: Index, name: str, values: Sequence[str]) -> Filter:
    wanted = [value.casefold() for value in values]
    return _texts(index, name), lambda said: any(word in text.casefold() for text in said for word in wanted)


def _equal(index: Index, name: str, values: Sequence[str], by_option: ByOption) -> Filter:
    if name == "text":
        return _holding(index, name, values)
    if name in _LISTED and (any(values) or name == "assignee"):
        return by_option(name, values)
    wanted = {value.casefold() for value in values}

    def says_one(said: Sequence[str]) -> bool:
        return any(text.casefold() in wanted for text in said) or ("" in wanted and not any(said))

    return _texts(index, name), says_one


def _texts(index: Index, name: str) -> tuple[list[Any], ...]:
    """One column of tuples: what each ticket says in the field, or in the rows of that label."""
    if name in ("label", "labels"):
        return (index.column(at.LABELS),)
    lists = {"domain": at.DOMAINS, "category": at.CATEGORIES, "file": at.FILES}
    if name == "text":
        return ([(text,) for text in index.folded],)
    if name in lists:
        return (index.column(lists[name]),)
    if name in _TEXTS:
        return ([(text,) for text in index.column(_TEXTS[name])],)
    further = index.column(at.FURTHER)
    labels = {label for rows in further for label, _ in rows}
    if name not in labels:
        known = dict.fromkeys([*_LISTED, "label", *_TEXTS, *sorted(labels)])
        near = nearest_names(name, known)
        hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(known)}, {', '.join(_ALONE)}"
        raise BadInputError(f"no ticket has a field '{name}'", hint)
    return ([tuple(text for label, text in rows if label == name) for rows in further],)


def _no_condition(
    condition: str, hint: str = "status=open, severity<=P1, label!=flaky, title~norm, unblocked"
) -> BadInputError:
    return BadInputError(f"not a condition: '{condition}'", hint)
