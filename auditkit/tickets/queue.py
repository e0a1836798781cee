"""Which tickets a list shows, in which order, and which one to take next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from auditkit.errors import BadInputError, meant
from auditkit.model.ticket import FIELDS, LISTS, Status, Ticket, id_parts
from auditkit.tickets.front_matter import check_field

COUNTABLE = ("status", "severity", "agent", "assignee", "batch", "domain", "labels", "categories")
_STARTED = (Status.IN_REVIEW, Status.FIX_IN_PROGRESS, Status.INVESTIGATING)


def condition(text: str) -> Callable[[Ticket], bool]:
    """Return the test that `FIELD=VALUE` or `FIELD!=VALUE` describes. Raises BadInputError.

    A list field matches if one of its items is the value; `severity<=P1` matches P1 and worse.
    """
    for sign in ("!=", "<=", "="):
        key, found, value = text.partition(sign)
        if found:
            break
    key, value = key.strip(), value.strip()
    if not found or key not in FIELDS:
        hint = meant(key, FIELDS, "--where severity=P1 --where status=open")
        raise BadInputError(f"{text!r} is not a condition", hint)
    if sign == "<=" and key == "severity":
        return lambda ticket: ticket.severity.value <= value.upper()
    if key in ("severity", "status", "batch"):
        _, problem = check_field(key, value.upper() if key == "severity" else value)
        if problem:
            raise BadInputError(f"{key} cannot be {value!r}", problem)
    wanted = value.casefold()

    def holds(ticket: Ticket) -> bool:
        own = getattr(ticket, key)
        values = own if key in LISTS else (own,)
        return any(str(one).casefold() == wanted for one in values) != (sign == "!=")

    return holds


def selected(tickets: Iterable[Ticket], conditions: Sequence[str] = (), all_statuses: bool = True) -> list[Ticket]:
    """Return the tickets for which every condition holds, worst first; without `all_statuses` only unfinished ones.

    Of one severity, `tickets` keep their order: a folder lists them by id.
    """
    tests = [condition(text) for text in conditions]
    found = [ticket for ticket in tickets if all_statuses or not ticket.status.is_finished]
    chosen = [ticket for ticket in found if all(test(ticket) for test in tests)]
    return sorted(chosen, key=lambda one: (one.status.is_finished, one.severity.value))


def counts(tickets: Iterable[Ticket], field: str) -> dict[str, int]:
    """Return the number of tickets for each value of a field, the most frequent first. Raises BadInputError."""
    if field not in COUNTABLE:
        hint = meant(field, COUNTABLE, f"one of {', '.join(COUNTABLE)}")
        raise BadInputError(f"tickets cannot be counted by {field!r}", hint)
    count: Counter[str] = Counter()
    for ticket in tickets:
        own = getattr(ticket, field)
        count.update([str(one) for one in own] or ["(none)"] if field in LISTS else [str(own) or "(none)"])
    return dict(sorted(count.items()) if field in ("severity", "status", "batch") else count.most_common())


@dataclass(frozen=True)
class Next:
    """The ticket to take, why, and how many others wait and are blocked."""

    ticket: Ticket
    reason: str
    waiting: int
    blocked: dict[str, tuple[str, ...]]


def blockers(tickets: Sequence[Ticket]) -> dict[str, tuple[str, ...]]:
    """Return the unfinished tickets that block each unfinished ticket, by id."""
    unfinished = {ticket.id for ticket in tickets if not ticket.status.is_finished}
    found: dict[str, list[str]] = {}
    for ticket in tickets:
        if ticket.id in unfinished:
            pairs = [(ticket.id, other) for other in ticket.linked("blocked-by")]
            pairs += [(other, ticket.id) for other in ticket.linked("blocks")]
            for held, by in pairs:
                if by in unfinished and held in unfinished and by != held and by not in found.setdefault(held, []):
                    found[held].append(by)
    return {held: tuple(by) for held, by in found.items() if by}


def take_next(tickets: Sequence[Ticket], me: str = "") -> Next | None:
    """Return the ticket to work on: own work that was started, else the worst one that is free and blocks most."""
    blocked = blockers(tickets)
    blocking = Counter(by for those in blocked.values() for by in those)
    unblocked = [ticket for ticket in tickets if ticket.id not in blocked and ticket.assignee in ("", me)]
    free = [one for one in unblocked if not one.status.is_finished and one.status is not Status.DEFERRED]

    def order(ticket: Ticket) -> tuple[bool, str, int, str, tuple[int, str, int]]:
        is_started = bool(me) and ticket.assignee == me and ticket.status in _STARTED
        created = ticket.created or "9999"
        return not is_started, ticket.severity.value, -blocking[ticket.id], created, id_parts(ticket.id)

    if not free:
        return None
    ticket = min(free, key=order)
    if not order(ticket)[0]:
        reason = f"you started it: it is {ticket.status.value}"
    else:
        same = sum(other.severity is ticket.severity for other in free)
        reason = (
            f"nothing free is worse ({f'1 of {same}' if same > 1 else 'the only one'} with {ticket.severity.value})"
        )
        reason += f"; it blocks {blocking[ticket.id]}" if blocking[ticket.id] else f"; the oldest, {ticket.created}"
    return Next(ticket, reason, len(free) - 1, blocked)
