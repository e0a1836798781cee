"""`--where FIELD=VALUE`: the words of `ticket list`'s filters, and any row of the metadata, on one line."""

from __future__ import annotations

import operator
import re

from auditkit.store.listing import rows as at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from auditkit.store.listing.index import Index
    from auditkit.store.listing.selection import Filter

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


def filters_of(folder: str, index: Index, conditions: Iterable[str]) -> list[Filter]:
    """What each condition lets pass: `severity=P0,P1`, `label!=flaky`, `due<2026-12-01`, `title~norm`, `unblocked`.

    Values with commas are alternatives, and one that is empty is a field that says nothing. Raises BadInputError.
    """
    return [_filter(folder, index, condition) for condition in conditions]


def ids_where(folder: str, conditions: Sequence[str]) -> tuple[list[str], int]:
    """The ids of the tickets that pass every condition, and how many finished ones were left out.

    As in `ticket list` these are left out unless a condition speaks of the status. Raises BadInputError.
    """
    from auditkit.cli.views.filters import in_state, named_filters, passing_all
    from auditkit.store.listing.index import read_index

    index = read_index(folder)
    passing = passing_all(index, named_filters(folder, index, {"where": conditions}, None, False))
    kept, left = in_state(index, passing, None if speaks_of_status(conditions) else False)
    ids = index.column(at.ID)
    return [ids[number] for number in kept], left


def speaks_of_status(conditions: Iterable[str]) -> bool:
    """Whether a condition says which statuses are meant, so that finished tickets may be among them."""
    return any((match := _CONDITION.fullmatch(one)) and match[1].casefold() == "status" for one in conditions)


def _filter(folder: str, index: Index, condition: str) -> Filter:
    from auditkit.store.listing import selection as sel

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
    found = _holding(index, name, values) if sign == "~" else _equal(folder, index, name, values)
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


def _equal(folder: str, index: Index, name: str, values: Sequence[str]) -> Filter:
    if name in _LISTED and (any(values) or name == "assignee"):
        from auditkit.cli.views.filters import filters

        words: list[Any] = [_number(value) for value in values] if name == "batch" else list(values)
        (found,) = filters(folder, index, {name: words})
        return found
    wanted = {value.casefold() for value in values}
    return _texts(
        index, name
    ), lambda said: any(text.casefold() in wanted for text in said) or ("" in wanted and not any(said))


def _texts(index: Index, name: str) -> tuple[list[Any], ...]:
    """One column of tuples: what each ticket says in the field, or in the rows of that label."""
    if name in ("label", "labels"):
        return (index.column(at.LABELS),)
    lists = {"domain": at.DOMAINS, "category": at.CATEGORIES, "file": at.FILES}
    if name in lists:
        return (index.column(lists[name]),)
    if name in _TEXTS:
        return ([(text,) for text in index.column(_TEXTS[name])],)
    further = index.column(at.FURTHER)
    labels = {label for rows in further for label, _ in rows}
    if name not in labels:
        from auditkit.errors import BadInputError, nearest_names

        known = dict.fromkeys([*_LISTED, "label", *_TEXTS, *sorted(labels)])
        near = nearest_names(name, known)
        hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(known)}, {', '.join(_ALONE)}"
        raise BadInputError(f"no ticket has a field '{name}'", hint)
    return ([tuple(text for label, text in rows if label == name) for rows in further],)


def _number(value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value):
        raise _no_condition(f"batch={value}", "batch=7")
    return int(value)


def _no_condition(condition: str, hint: str = "status=open, severity<=P1, label!=flaky, title~norm, unblocked") -> Any:
    from auditkit.errors import BadInputError

    return BadInputError(f"not a condition: '{condition}'", hint)
