"""From a judged run to its tickets: one for each finding, the worst first."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace

from auditkit.errors import BadInputError
from auditkit.model.enums import Outcome
from auditkit.model.ids import agent_code
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import Finding, Run
from auditkit.rendering.ticket import render_evidence, render_ticket
from auditkit.store.filing import Filing, file_finding
from auditkit.store.repository import Repository


@dataclass(frozen=True)
class Paperwork:
    """What new tickets say beside the finding: batch, agent (None: the probe's), and how it was asked.

    `source` is the checkout's directory without a revision, `command` what the user typed.
    """

    probes: Mapping[str, ProbeInfo]
    batch: int
    agent: str | None
    source: str
    command: str


def file_run(run: Run, repository: Repository, paperwork: Paperwork) -> Run:
    """The run with a ticket for each finding; nothing is closed because the run does not mention it.

    A finding whose ticket cannot be read stays without one, with a note. Raises StoreConflictError where
    the folder is locked or cannot be written.
    """
    results, notes = list(run.results), list(run.notes)
    found = [index for index, result in enumerate(results) if result.outcome is Outcome.REPRODUCED]
    for index in sorted(found, key=lambda index: str(results[index].severity)):
        finding = _finding(run, index, paperwork)
        try:
            filed = file_finding(repository, _filing(finding, paperwork))
        except BadInputError as error:
            notes.append(f"no ticket for {results[index].fingerprint}: {error.message}")
            continue
        results[index] = replace(results[index], ticket=str(filed.id), ticket_action=filed.action.value)
    return replace(run, results=tuple(results), notes=tuple(notes))


def _finding(run: Run, index: int, paperwork: Paperwork) -> Finding:
    """The finding at `index`: results stand in the order of the targets, each with one for every probe."""
    result = run.results[index]
    target = run.targets[index // len(paperwork.probes)].target
    return Finding(paperwork.probes[result.probe], result, run.environment, run.id, target, paperwork.source)


def _filing(finding: Finding, paperwork: Paperwork) -> Filing:
    today = datetime.date.today()
    location = finding.result.location
    domain = _domain(location.file) if location else ""
    return Filing(
        fingerprint=finding.result.fingerprint,
        batch=paperwork.batch,
        agent=agent_code(paperwork.agent) if paperwork.agent else finding.probe.agent,
        revision=finding.environment.revision,
        today=today,
        create=lambda ticket_id: render_ticket(finding, ticket_id, today, domain, paperwork.command),
        evidence=lambda history: render_evidence(finding, history),
    )


def _domain(file: str) -> str:
    """The part of the code base that a file belongs to: its folders, without those that hold all sources."""
    folders = [part for part in file.split("/")[:-1] if part not in ("src", "lib", "python")]
    return "/".join(folders[-2:])
