"""From an audit report to a code audit: its causes one after the other, what is no issue, and the fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from auditkit.model.codec import Record
from auditkit.model.enums import Outcome, Severity
from auditkit.model.revisions.changes import FunctionHistory
from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.model.runs.run import Run
from auditkit.model.ticket import Ticket
from auditkit.rules.reports.audit_parts import Advice, Answer, AuditReport, Issue, Item, SectionPage, TicketState

History = Callable[[Location | None, Sequence[str]], FunctionHistory | None]
"""What happened to the function of a location, or to the first of some targets."""


class Kind(StrEnum):
    """What a numbered entry of a code audit is; a question without an answer is never `no issue`."""

    FINDING = "finding"
    RESOLVED = "resolved"
    NO_ISSUE = "no issue"
    UNANSWERED = "not answered"


@dataclass(frozen=True)
class Entry(
    Record,
    keys="number title kind severity location what_changed=history risk=risks impact=answers "
    "recommendations=advice ticket",
):
    """A numbered entry: a cause with its findings, or what one section asked without finding anything.

    `advice` begins with that of the worst finding; `ran` says what the fix changes that was run and mends it.
    """

    number: int
    title: str
    kind: Kind
    severity: Severity | None = None
    location: Location | None = None
    excerpt: CodeExcerpt | None = None
    history: FunctionHistory | None = None
    risks: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    advice: tuple[Advice, ...] = ()
    ticket: TicketState | None = None
    ran: str = ""


@dataclass(frozen=True)
class CodeAudit(
    Record,
    keys="title=report.title date=report.date run=report.run files=report.files targets=report.targets "
    "severities=report.counts outcomes=report.outcomes assessment=report.assessment since findings=entries "
    "fixes notes=report.notes",
):
    """The whole document; `report` is what it was made from, `since` the revision that changes are told from."""

    schema_version: ClassVar[int] = 1

    report: AuditReport
    since: str
    entries: tuple[Entry, ...]

    @property
    def findings(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.kind is Kind.FINDING)

    @property
    def fixes(self) -> list[dict[str, Any]]:
        return [{"number": entry.number, "text": fix_of(entry)} for entry in self.findings if entry.advice]

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"since": self.since or None}


def code_audit(
    report: AuditReport, run: Run, tickets: Sequence[Ticket], since: str = "", history: History = lambda *_: None
) -> CodeAudit:
    """Causes in the order of severity; then finished tickets that stay so; then each section without a finding."""
    entries = [*_causes(report, history), *_resolved(run, tickets, history), *_others(report.sections, run)]
    numbered = tuple(replace(entry, number=number) for number, entry in enumerate(entries, 1))
    return CodeAudit(report, since, numbered)


def by_message(entry: Entry) -> tuple[tuple[str, tuple[Answer, ...]], ...]:
    """The answers of an entry that say the same, together: one missing package stops every probe alike."""
    groups: dict[str, list[Answer]] = {}
    for answer in entry.answers:
        groups.setdefault(answer.result.message, []).append(answer)
    return tuple((message, tuple(answers)) for message, answers in groups.items())


def fix_of(entry: Entry) -> str:
    """What is proposed for a finding, as one line: that of its worst probe, and whether it was run."""
    return entry.ran or (entry.advice[0].text if entry.advice else "")


def _causes(report: AuditReport, history: History) -> Iterator[Entry]:
    items = {item.number: item for page in report.sections for item in page.items}
    for issue in report.issues:
        own = [items[number] for number in issue.numbers]
        yield _cause(issue, own, history)


def _cause(issue: Issue, items: Sequence[Item], history: History) -> Entry:
    answers = tuple(answer for item in items for answer in item.answers)
    return Entry(
        number=0,
        title=issue.title,
        kind=Kind.FINDING,
        severity=issue.severity,
        location=issue.location,
        excerpt=next((item.excerpt for item in items if item.excerpt), None),
        history=history(issue.location, [answer.result.target for answer in answers]),
        risks=tuple(dict.fromkeys(text for item in items for text in item.impacts)),
        answers=answers,
        advice=tuple(sorted((one for item in items for one in item.advice), key=lambda one: one.text != issue.advice)),
        ran=issue.first_step if issue.first_step != issue.advice else "",
        ticket=issue.ticket,
    )


def _resolved(run: Run, tickets: Sequence[Ticket], history: History) -> Iterator[Entry]:
    """Finished tickets of which this run asked every finding again, and reproduced none."""
    outcomes = {result.fingerprint: result for result in run.results}
    for ticket in tickets:
        asked = [outcomes[held] for held in ticket.findings if held in outcomes]
        is_gone = all(result.outcome is Outcome.NOT_REPRODUCED for result in asked)
        if ticket.status.is_finished and asked and is_gone and len(asked) == len(ticket.findings):
            yield Entry(
                number=0,
                title=ticket.title,
                kind=Kind.RESOLVED,
                history=history(None, [result.target for result in asked]),
                answers=tuple(Answer(replace(one, measurements=(), notes=(), arms=())) for one in asked),
                ticket=TicketState.of(ticket),
            )


def _others(sections: Sequence[SectionPage], run: Run) -> Iterator[Entry]:
    """What each section asked and did not find; then what got no answer there. What does not apply is left out."""
    for kind, outcomes in (
        (Kind.NO_ISSUE, {Outcome.NOT_REPRODUCED}),
        (Kind.UNANSWERED, {Outcome.UNAVAILABLE, Outcome.ERROR}),
    ):
        wanted = {(result.probe, result.target) for result in run.results if result.outcome in outcomes}
        for page in sections:
            every = [answer for item in page.items if item.severity is None for answer in item.answers]
            answers = tuple(answer for answer in every if (answer.result.probe, answer.result.target) in wanted)
            if answers:
                yield Entry(number=0, title=page.section.value, kind=kind, answers=answers)
