"""From a judged run to its tickets: one for each cause, the worst first, linked where they are about the same code."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from auditkit.errors import BadInputError
from auditkit.model.enums import Outcome
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Finding, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.model.tickets.ids import AGENT_NAMES, TicketId, agent_code, id_parts
from auditkit.rendering.evidence import render_banner, render_evidence
from auditkit.rendering.markdown import line
from auditkit.rendering.ticket import render_ticket
from auditkit.rules.lint.rule import FOLDERS
from auditkit.rules.tickets.grouping import group_by_cause, relation
from auditkit.store.folder.filing import Case, Filed, Filing, FilingAction, file_case, note_absence, relate
from auditkit.store.folder.repository import Repository
from auditkit.workflows.tickets.status_folders import Folders, put_in_place


@dataclass(frozen=True)
class Paperwork:
    """What new tickets say beside the finding: batch, agent (None: the probe's), and how it was asked.

    `source` is the checkout's directory without a revision, `command` what the user typed. `asked_as`
    names the probes that were given as files, `options` are words that ask the same way again; `agents` are
    agents' names by code; `folders` are those for finished tickets, which one that opens again leaves.
    """

    probes: Mapping[str, ProbeInfo]
    batch: int
    agent: str | None
    source: str
    command: str
    asked_as: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    agents: Mapping[str, str] = field(default_factory=lambda: dict(AGENT_NAMES))
    folders: Folders = field(default_factory=lambda: FOLDERS)


def file_run(run: Run, repository: Repository, paperwork: Paperwork) -> Run:
    """The run with a ticket for each finding; nothing is closed, whatever the run says or does not mention.

    Findings of one cause share a ticket, and new tickets name those about the same function or target;
    see docs/design/grouping.md. What was asked and is not reproduced any more is said in its block, and in
    a note. A finding whose ticket cannot be read stays without one, with a note.
    Raises StoreConflictError where the folder is locked or cannot be written.
    """
    found = [result for result in run.results if result.outcome is Outcome.REPRODUCED]
    groups = group_by_cause(_finding(run, result, paperwork) for result in found)
    done: dict[str, Filed | BadInputError] = {}
    for group in groups:
        done |= file_case(repository, _case(group, paperwork))
    for filed in done.values():
        if isinstance(filed, Filed) and filed.action is FilingAction.REOPENED:
            put_in_place(repository, filed.id, paperwork.folders)
    _relate(repository, [finding for group in groups for finding in group], done)
    notes = [
        f"no ticket for {fingerprint}: {outcome.message}"
        for fingerprint, outcome in done.items()
        if isinstance(outcome, BadInputError)
    ]
    notes += _note_absences(run, repository)
    results = tuple(_with_ticket(result, done.get(result.fingerprint)) for result in run.results)
    return replace(run, results=results, notes=(*run.notes, *notes))


def _with_ticket(result: ProbeResult, outcome: Filed | BadInputError | None) -> ProbeResult:
    if result.outcome is not Outcome.REPRODUCED or not isinstance(outcome, Filed):
        return result
    return replace(result, ticket=str(outcome.id), ticket_action=outcome.action.value)


def _note_absences(run: Run, repository: Repository) -> list[str]:
    """Say in the tickets what this run asked again and did not reproduce, and name those that changed."""
    absent = {
        result.fingerprint: result.probe_version for result in run.results if result.outcome is Outcome.NOT_REPRODUCED
    }
    environment = run.environment
    revision = f"{environment.revision} with uncommitted changes" if environment.dirty else environment.revision
    noted = note_absence(repository, absent, revision, datetime.date.today())
    return [f"{ticket_id}: {fingerprint} is not reproduced any more" for fingerprint, ticket_id in noted.items()]


def _relate(repository: Repository, findings: Sequence[Finding], done: Mapping[str, Filed | BadInputError]) -> None:
    """Name in every ticket that this run made the run's other tickets about the same code."""
    tickets: dict[TicketId, list[Finding]] = {}
    created = set()
    for finding in findings:
        filed = done[finding.result.fingerprint]
        if isinstance(filed, Filed):
            tickets.setdefault(filed.id, []).append(finding)
            created |= {filed.id} if filed.action is FilingAction.CREATED else set()
    notes = {
        ticket_id: [
            f"- {other}: {line(words)}"
            for other in sorted(tickets.keys() - {ticket_id}, key=id_parts)
            if (words := relation(tickets[ticket_id], tickets[other]))
        ]
        for ticket_id in created
    }
    relate(repository, {ticket_id: lines for ticket_id, lines in notes.items() if lines})


def _finding(run: Run, result: ProbeResult, paperwork: Paperwork) -> Finding:
    return Finding(
        probe=paperwork.probes[result.probe],
        result=result,
        environment=run.environment_of(result),
        run_id=run.id,
        target=_target(run, result),
        source=paperwork.source,
        asked_as=paperwork.asked_as.get(result.probe, ""),
        options=(*paperwork.options, *_arm_words(run, result)),
    )


def _arm_words(run: Run, result: ProbeResult) -> list[str]:
    """The options that ask in the arm whose figures the ticket shows, where there are several."""
    words = []
    if len({arm.environment.interpreter for arm in result.arms}) > 1:
        words += ["--python", run.environment_of(result).interpreter]
    if len({arm.device for arm in result.arms}) > 1:
        words += ["--device", result.device]
    return words


def _target(run: Run, result: ProbeResult) -> Target | None:
    """The target that was asked; where one function is several of them, the fingerprint says which."""
    same = [reading.target for reading in run.targets if reading.target.call == result.target]
    ordinal = re.search(r"#(\d+)$", result.fingerprint)
    number = int(ordinal[1]) if ordinal else 0
    return same[number] if number < len(same) else None


def _case(group: Sequence[Finding], paperwork: Paperwork) -> Case:
    leader = group[0]
    today = datetime.date.today()
    location = leader.result.location
    domain = _domain(location.file) if location else ""

    def create(ticket_id: TicketId, fingerprints: Sequence[str]) -> bytes:
        wanted = [finding for finding in group if finding.result.fingerprint in fingerprints]
        return render_ticket(wanted, ticket_id, today, domain, paperwork.command, agents=paperwork.agents)

    return Case(
        filings=tuple(map(_filing, group)),
        batch=paperwork.batch,
        agent=agent_code(paperwork.agent, paperwork.agents) if paperwork.agent else leader.probe.agent,
        revision=leader.environment.revision,
        today=today,
        create=create,
        banner=render_banner,
    )


def _filing(finding: Finding) -> Filing:
    return Filing(
        fingerprint=finding.result.fingerprint,
        severity=finding.result.severity or finding.probe.severity,
        evidence=lambda history, above: render_evidence(finding, history, above),
    )


def _domain(file: str) -> str:
    """The part of the code base that a file belongs to: its folders, without those that hold all sources.

    A file that lies in none is a part of its own.
    """
    *folders, name = file.split("/")
    return "/".join([part for part in folders if part not in ("src", "lib", "python")][-2:]) or name.removesuffix(".py")
