"""What the summary page of all tickets says: counts by everything, what is due when, what waits for an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from auditkit.model.codec import Record
from auditkit.model.tickets.ticket import Ticket
from auditkit.rules.counting.statistics import Facet, Statistics, cross_of, nested, percent_of, statistics_of
from auditkit.rules.reports.words import Horizon
from auditkit.rules.tickets.consensus import consensus_of


@dataclass(frozen=True)
class Waiting(Record, keys="id=ticket.id what"):
    """A ticket whose reviewers wait for an answer, and the sentence that says what for."""

    ticket: Ticket
    what: str


@dataclass(frozen=True)
class Triage(Record, keys="horizon severities=horizon.severities count percent unfinished"):
    """The tickets of one horizon: how many there are, and those that are not finished, worst first."""

    horizon: Horizon
    count: int
    percent: float
    unfinished: tuple[Ticket, ...]

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"unfinished": [ticket.id for ticket in self.unfinished]}


@dataclass(frozen=True)
class SummaryReport(Record, keys="date **statistics severity_by_agent batch_by_status triage waiting"):
    """The page. `by_agent` is severity by agent, `by_batch` batch by status."""

    schema_version: ClassVar[int] = 1

    date: str
    statistics: Statistics
    by_agent: Mapping[tuple[str, str], int]
    by_batch: Mapping[tuple[str, str], int]
    triage: tuple[Triage, ...]
    waiting: tuple[Waiting, ...]

    @property
    def severity_by_agent(self) -> dict[str, dict[str, int]]:
        return nested(self.by_agent)

    @property
    def batch_by_status(self) -> dict[str, dict[str, int]]:
        return nested(self.by_batch)


def summary_report(tickets: Sequence[Ticket], date: str) -> SummaryReport:
    """Everything that is counted, of all `tickets`; `date` (ISO) is when."""
    return SummaryReport(
        date=date,
        statistics=statistics_of(tickets),
        by_agent=cross_of(tickets, Facet.SEVERITY, Facet.AGENT),
        by_batch=cross_of(tickets, Facet.BATCH, Facet.STATUS),
        triage=tuple(_triage(horizon, tickets) for horizon in Horizon),
        waiting=waiting_of(tickets),
    )


def waiting_of(tickets: Sequence[Ticket]) -> tuple[Waiting, ...]:
    """The tickets of which a majority of reviewers says something that nobody has answered, worst first."""
    found = (Waiting(ticket, consensus_of(ticket).needs_answer) for ticket in worst_first(tickets))
    return tuple(one for one in found if one.what)


def worst_first(tickets: Sequence[Ticket]) -> list[Ticket]:
    """By severity, unknown ones last; the order of the ids is kept."""
    return sorted(tickets, key=lambda ticket: (ticket.severity is None, ticket.severity or ""))


def _triage(horizon: Horizon, tickets: Sequence[Ticket]) -> Triage:
    due = [ticket for ticket in worst_first(tickets) if ticket.severity in horizon.severities]
    unfinished = tuple(ticket for ticket in due if not ticket.is_finished)
    return Triage(horizon, len(due), percent_of(len(due), len(tickets)), unfinished)
