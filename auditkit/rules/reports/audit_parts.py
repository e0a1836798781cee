"""What an audit report is made of: numbered items in sections, issues, and what is to be done in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from auditkit.model.codec import Record
from auditkit.model.enums import Severity
from auditkit.model.module_page import ModulePage
from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.model.runs.run import Environment, ProbeResult, RunHead
from auditkit.model.ticket import Status, Ticket
from auditkit.rules.reports.sections import Section
from auditkit.rules.reports.words import Horizon, Label


@dataclass(frozen=True)
class Answer(
    Record,
    keys="probe=result.probe target=result.target message=result.message evidence=result.evidence "
    "device=result.device law=result.law measurements=result.measurements notes=result.notes arms",
):
    """What one probe said of one target: in its words, by which evidence, on which device, with what was measured."""

    result: ProbeResult

    @property
    def arms(self) -> str:
        """What each of several interpreters or devices answered, in words; "" where they agree."""
        return self.result.arms_in_words() if self.result.arms_differ else ""


@dataclass(frozen=True)
class Advice(Record, keys="probe text code"):
    """What a probe recommends: a sentence, and code that it does not reproduce on ("" for none).

    `code_at` is the number of the item that shows the same code already.
    """

    probe: str
    text: str
    code: str
    code_at: str = ""


@dataclass(frozen=True)
class TicketState(Record, keys="id status"):
    """A finding's ticket as it stands: `status` is "" where the run names a ticket that was not read."""

    id: str
    status: str
    severity: Severity | None = None
    is_finished: bool = False
    is_deferred: bool = False

    @classmethod
    def of(cls, ticket: Ticket) -> TicketState:
        is_deferred = ticket.status is Status.DEFERRED
        return cls(ticket.id, ticket.status.value, ticket.severity, ticket.status.is_finished, is_deferred)


@dataclass(frozen=True)
class Item(
    Record,
    keys="number title label severity locations excerpt answers impact=impacts recommendations=advice ticket "
    "observation same_cause=see",
):
    """A numbered line of a section: a finding, what else a probe said, or what the source shows.

    `observation` is what reading the module says where no probe asked; `see` are items of the same cause.
    """

    number: str
    title: str
    label: Label
    severity: Severity | None = None
    locations: tuple[Location, ...] = ()
    excerpt: CodeExcerpt | None = None
    answers: tuple[Answer, ...] = ()
    impacts: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    ticket: TicketState | None = None
    observation: str = ""
    see: tuple[str, ...] = ()


@dataclass(frozen=True)
class SectionPage(Record, keys="number title=section items"):
    """One section with its number and its items; those without any are said to have none."""

    number: int
    section: Section
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Issue(Record, keys="severity title also location ticket items=numbers"):
    """A cause with its worst finding: a row of the summary. `severity` is its ticket's, where it has one.

    `first_step` is what the fix changes that was run, else `advice`, the worst finding's.
    """

    severity: Severity
    title: str
    also: tuple[str, ...]
    location: Location | None
    ticket: TicketState | None
    numbers: tuple[str, ...]
    first_step: str
    advice: str = ""


@dataclass(frozen=True)
class Plan:
    """What is due when: open issues by horizon, and finished tickets whose finding this run reproduced."""

    due: Mapping[Horizon, tuple[Issue, ...]]
    contradicted: tuple[Issue, ...]

    def to_json(self) -> dict[str, Any]:
        due = {horizon.value: [issue.title for issue in issues] for horizon, issues in self.due.items()}
        return {"due": due, "contradicted": [issue.title for issue in self.contradicted]}


@dataclass(frozen=True)
class AuditReport(
    Record,
    keys="title date run files targets severities=counts outcomes assessment sections issues priorities=plan "
    "modules notes",
):
    """The whole report. `assessment` are sentences computed from the counts; `date` is the run's."""

    schema_version: ClassVar[int] = 1

    title: str
    date: str
    run_id: str
    environment: Environment
    versions: tuple[str, ...]
    files: tuple[str, ...]
    probes: int
    targets: tuple[str, ...]
    modules: tuple[ModulePage, ...]
    counts: Mapping[Severity, int]
    outcomes: Mapping[str, int]
    assessment: tuple[str, ...]
    sections: tuple[SectionPage, ...]
    issues: tuple[Issue, ...]
    plan: Plan
    notes: tuple[str, ...]

    @property
    def run(self) -> RunHead:
        return RunHead(self.run_id, self.environment)
