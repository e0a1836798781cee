"""How many tickets are what: counts by each facet, and of tickets that are several things at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from auditkit.model.codec import Record
from auditkit.model.enums import Severity
from auditkit.model.tickets.ids import agent_code, agent_name
from auditkit.model.tickets.review import Verdict
from auditkit.model.tickets.ticket import Status, Ticket
from auditkit.rules.tickets.consensus import Agreement, consensus_of, votes_of

UNKNOWN = "unknown"
"""The label of tickets whose word nobody knows, and of votes without a known verdict."""


class Facet(StrEnum):
    """What tickets are counted by."""

    SEVERITY = "severity"
    STATUS = "status"
    AGENT = "agent"
    BATCH = "batch"
    DOMAIN = "domain"
    CATEGORY = "category"
    VERDICT = "verdict"
    CONSENSUS = "consensus"

    @property
    def is_single(self) -> bool:
        """Whether every ticket has exactly one value, so that the counts add up to the number of tickets."""
        return self not in (Facet.DOMAIN, Facet.CATEGORY, Facet.VERDICT)


_ORDERS: Mapping[Facet, tuple[str, ...]] = {
    Facet.SEVERITY: tuple(Severity),
    Facet.STATUS: tuple(Status),
    Facet.VERDICT: tuple(Verdict),
    Facet.CONSENSUS: tuple(Agreement),
}


@dataclass(frozen=True)
class Count(Record):
    """`count` tickets (votes, for verdicts) have the value `label`; `percent` of all of them."""

    label: str
    count: int
    percent: float


@dataclass(frozen=True)
class Statistics(Record, keys="total votes by severity_by_status"):
    """The figures of a folder. `cross` is severity by status; `votes` is how many verdicts were given."""

    total: int
    votes: int
    by: Mapping[Facet, tuple[Count, ...]]
    cross: Mapping[tuple[str, str], int]

    @property
    def severity_by_status(self) -> dict[str, dict[str, int]]:
        return nested(self.cross)


Counted = Ticket | Mapping[Facet, tuple[str, ...]]
"""What is counted: a ticket, or the values that it counts as by facet."""


def statistics_of(tickets: Iterable[Counted], facets: Iterable[Facet] = tuple(Facet)) -> Statistics:
    """The counts of `tickets` by each of `facets`."""
    known = tuple(tickets)
    votes = sum(len(values_of(ticket, Facet.VERDICT)) for ticket in known)
    by = {facet: _counts(known, facet, votes if facet is Facet.VERDICT else len(known)) for facet in facets}
    return Statistics(len(known), votes, by, cross_of(known, Facet.SEVERITY, Facet.STATUS))


def cross_of(tickets: Iterable[Counted], rows: Facet, columns: Facet) -> Mapping[tuple[str, str], int]:
    """How many tickets have both values, for every pair that occurs, in the order of both facets."""
    pairs = (pair for ticket in tickets for pair in product(values_of(ticket, rows), values_of(ticket, columns)))
    cross = Counter(pairs)
    return {
        pair: cross[pair] for pair in sorted(cross, key=lambda pair: (_rank(rows, pair[0]), _rank(columns, pair[1])))
    }


def nested(cross: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Counts by row and column as a mapping of rows."""
    rows: dict[str, dict[str, int]] = {}
    for (row, column), count in cross.items():
        rows.setdefault(row, {})[column] = count
    return rows


def values_of(ticket: Counted, facet: Facet) -> tuple[str, ...]:
    """What `ticket` counts as: one value, several (categories, verdicts), or none."""
    if not isinstance(ticket, Ticket):
        return ticket[facet]
    match facet:
        case Facet.SEVERITY:
            return (ticket.severity.value if ticket.severity else UNKNOWN,)
        case Facet.STATUS:
            return (ticket.status.value if ticket.status else UNKNOWN,)
        case Facet.AGENT:
            return (agent_name(agent_code(ticket.agent)),)
        case Facet.BATCH:
            return (str(ticket.batch),)
        case Facet.DOMAIN:
            return roots_of(ticket.domains)
        case Facet.CATEGORY:
            return tuple(dict.fromkeys(ticket.categories))
        case Facet.VERDICT:
            return tuple(vote.verdict.value if vote.verdict else UNKNOWN for vote in votes_of(ticket))
        case Facet.CONSENSUS:
            return (consensus_of(ticket).kind.value,)


def roots_of(domains: Iterable[str]) -> tuple[str, ...]:
    """The domains of which these are parts: `simic` for `simic/telemetry`."""
    return tuple(dict.fromkeys(domain.partition("/")[0] for domain in domains))


def percent_of(count: int, base: int) -> float:
    """`count` as a percentage of `base` with one decimal; 0 of nothing."""
    return round(100 * count / base, 1) if base else 0.0


def _counts(tickets: tuple[Counted, ...], facet: Facet, base: int) -> tuple[Count, ...]:
    counts = Counter(value for ticket in tickets for value in values_of(ticket, facet))
    # Of values that have no order of their own the most frequent goes first.
    is_free = facet in (Facet.AGENT, Facet.DOMAIN, Facet.CATEGORY)
    ordered = sorted(counts, key=lambda label: (_rank(facet, label), -counts[label] if is_free else 0, label))
    return tuple(Count(label, counts[label], percent_of(counts[label], base)) for label in ordered)


def _rank(facet: Facet, label: str) -> int:
    if facet is Facet.BATCH:
        return int(label)
    order = _ORDERS.get(facet, ())
    return order.index(label) if label in order else len(order)
