"""What the page of one batch says: its tickets file by file, what cuts across files, how the reviewers see them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from auditkit.model.codec import Record
from auditkit.model.enums import Severity
from auditkit.model.tickets.ids import agent_code, agent_name
from auditkit.model.tickets.ticket import Ticket
from auditkit.rules.counting.statistics import Statistics, statistics_of
from auditkit.rules.reports.summary import Waiting, waiting_of, worst_first
from auditkit.rules.reports.words import Horizon, horizon_of, in_words
from auditkit.rules.tickets.consensus import Consensus, consensus_of

_SHORTEST_STEP, _LONGEST_STEP = 20, 200
_DECORATION = re.compile(r"\*\*|__|^\s*(?:#+|[-*+]|\d+[.)])\s+")
_KEY = (Severity.P0, Severity.P1, Severity.P2)


@dataclass(frozen=True)
class FileFindings(Record, keys="file tickets=ids"):
    """One reviewed file and its tickets, worst first; "" for tickets that name none."""

    file: str
    tickets: tuple[Ticket, ...]

    @property
    def ids(self) -> list[str]:
        return _ids(self.tickets)


@dataclass(frozen=True)
class Shared(Record, keys="category files tickets=ids"):
    """A category that tickets of several files have."""

    category: str
    files: int
    tickets: tuple[Ticket, ...]

    @property
    def ids(self) -> list[str]:
        return _ids(self.tickets)


@dataclass(frozen=True)
class Link(Record, keys="first kind second"):
    """Two tickets of which one names the other, with what it is to it ("" for no known word)."""

    first: str
    kind: str
    second: str
    note: str


@dataclass(frozen=True)
class Reviewed(Record, keys="id=ticket.id **consensus"):
    """A ticket with what its reviews come to."""

    ticket: Ticket
    consensus: Consensus


@dataclass(frozen=True)
class BatchReport(Record, keys="batch agent date **statistics assessment files cross_cutting reviews waiting due"):
    """The page of a batch, of one agent's tickets where `agent` is not ""."""

    schema_version: ClassVar[int] = 1

    batch: int
    agent: str
    date: str
    tickets: tuple[Ticket, ...]
    statistics: Statistics
    assessment: tuple[str, ...]
    key_findings: Mapping[Severity, tuple[Ticket, ...]]
    files: tuple[FileFindings, ...]
    across: tuple[Ticket, ...]
    shared: tuple[Shared, ...]
    links: tuple[Link, ...]
    reviews: tuple[Reviewed, ...]
    waiting: tuple[Waiting, ...]
    due: Mapping[Horizon, tuple[Ticket, ...]]

    @property
    def cross_cutting(self) -> dict[str, Any]:
        return {"several_files": _ids(self.across), "shared_categories": self.shared, "links": self.links}

    def to_json(self) -> dict[str, Any]:
        due = {horizon.value: _ids(tickets) for horizon, tickets in self.due.items()}
        return super().to_json() | {"agent": self.agent or None, "due": due}


def batches_of(tickets: Iterable[Ticket]) -> list[int]:
    """The batches that have tickets, in their order."""
    return sorted({ticket.batch for ticket in tickets})


def batch_report(tickets: Sequence[Ticket], batch: int, date: str, agent: str = "") -> BatchReport:
    """The page of the tickets of `batch`; `agent` is an agent's name, `date` (ISO) is when."""
    chosen = tuple(one for one in tickets if one.batch == batch and agent in ("", agent_name(agent_code(one.agent))))
    ordered = worst_first(chosen)
    reviews = tuple(Reviewed(ticket, consensus_of(ticket)) for ticket in ordered if ticket.reviews)
    waiting = waiting_of(chosen)
    return BatchReport(
        batch=batch,
        agent=agent,
        date=date,
        tickets=chosen,
        statistics=statistics_of(chosen),
        assessment=_assessment(ordered, reviews, waiting),
        key_findings={level: tuple(one for one in ordered if one.severity is level) for level in _KEY},
        files=_files(ordered),
        across=tuple(ticket for ticket in ordered if len(ticket.files) > 1),
        shared=_shared(ordered),
        links=tuple(_links(chosen)),
        reviews=reviews,
        waiting=waiting,
        due=_due(ordered),
    )


def first_step(ticket: Ticket) -> str:
    """The first words of the recommended fix, cut where they are long; "" where there is no fix."""
    found = ""
    for line in ticket.recommended_fix.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            return found or "code of its own"
        found = f"{found} {_DECORATION.sub('', line).strip()}".strip()
        if len(found) >= _SHORTEST_STEP:  # "Either:" alone says nothing
            break
    found = found.rstrip(":")
    return found if len(found) <= _LONGEST_STEP else f"{found[:_LONGEST_STEP].rstrip()}..."


def _assessment(ordered: Sequence[Ticket], reviews: Sequence[Reviewed], waiting: Sequence[Waiting]) -> tuple[str, ...]:
    """Sentences that follow from the tickets: the worst, what is left, and what the reviewers make of them."""
    worst = next((ticket.severity for ticket in ordered if ticket.severity is not None), None)
    left = [ticket for ticket in ordered if not ticket.is_finished]
    sentences = [f"The worst severity is {in_words(worst)}." if worst else "No ticket has a known severity."]
    sentences.append(_left(left))
    if not reviews:
        return (*sentences, "No ticket was reviewed.")
    unreviewed = len(ordered) - len(reviews)
    sentences.append("Every ticket was reviewed." if not unreviewed else f"Without a review: {unreviewed}.")
    named = ", ".join(_ids(one.ticket for one in waiting))
    sentences.append(f"Reviews that wait: {named}." if named else "No review waits for an answer.")
    return tuple(sentences)


def _left(left: Sequence[Ticket]) -> str:
    if not left:
        return "Nothing of it is left to do."
    due = _ids(ticket for ticket in left if ticket.severity in Horizon.IMMEDIATE.severities)
    return f"Left and immediate: {', '.join(due)}." if due else "What is left holds nothing immediate (P0 or P1)."


def _files(ordered: Sequence[Ticket]) -> tuple[FileFindings, ...]:
    """Every file that a ticket names first, in the order of names; tickets without a file come last."""
    found: dict[str, list[Ticket]] = {}
    for ticket in ordered:
        found.setdefault(ticket.files[0] if ticket.files else "", []).append(ticket)
    names = sorted(found, key=lambda file: (not file, file))
    return tuple(FileFindings(file, tuple(found[file])) for file in names)


def _shared(ordered: Sequence[Ticket]) -> tuple[Shared, ...]:
    """Categories of tickets in several files, the most frequent first."""
    found: dict[str, list[Ticket]] = {}
    for ticket in ordered:
        for category in dict.fromkeys(ticket.categories):
            found.setdefault(category, []).append(ticket)
    shared = [
        Shared(category, len({file for ticket in tickets for file in ticket.files}), tuple(tickets))
        for category, tickets in found.items()
    ]
    wide = [one for one in shared if one.files > 1 and len(one.tickets) > 1]
    return tuple(sorted(wide, key=lambda one: (-len(one.tickets), one.category)))


def _links(tickets: Sequence[Ticket]) -> Iterable[Link]:
    """What the tickets say of one another and of others; a pair that both name in inverse words stands once."""
    seen: set[tuple[str, str, str]] = set()
    for ticket in tickets:
        for relation in ticket.related:
            if not relation.id:
                continue
            kind = relation.kind.value if relation.kind else ""
            inverse = relation.kind.inverse.value if relation.kind else ""
            if (str(relation.id), inverse, str(ticket.id)) not in seen:
                seen.add((str(ticket.id), kind, str(relation.id)))
                yield Link(str(ticket.id), kind, str(relation.id), relation.note)


def _due(ordered: Sequence[Ticket]) -> dict[Horizon, tuple[Ticket, ...]]:
    """The unfinished tickets by when they are due."""
    left = [ticket for ticket in ordered if not ticket.is_finished and ticket.severity is not None]
    return {
        horizon: tuple(one for one in left if one.severity is not None and horizon_of(one.severity) is horizon)
        for horizon in Horizon
    }


def _ids(tickets: Iterable[Ticket]) -> list[str]:
    return [str(ticket.id) for ticket in tickets]
