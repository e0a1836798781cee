"""The findings of a run by their cause, each with the ticket that tracks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.enums import Outcome, Severity
from auditkit.model.grouping import group_by_cause
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Finding, ProbeResult, Run
from auditkit.model.runs.target import short_target
from auditkit.model.text import listed
from auditkit.model.ticket import Ticket


@dataclass(frozen=True)
class Sources:
    """What a report is written from.

    `probes` are known definitions by id, `tickets` those of the folder; `notes` say what could not be read. `file` is
    the only file that the report covers, if any; `prefix` leads from the top of the repository to the checkout.
    """

    run: Run
    probes: Mapping[str, ProbeInfo]
    tickets: Sequence[Ticket] = ()
    notes: tuple[str, ...] = ()
    file: str = ""
    prefix: str = ""


@dataclass(frozen=True, eq=False)
class Cause:
    """The findings of one cause, the worst first, and the ticket that tracks them; `status` is "" if it is not read."""

    findings: tuple[Finding, ...]
    ticket: str = ""
    status: str = ""

    @property
    def worst(self) -> Finding:
        return self.findings[0]

    @property
    def results(self) -> list[ProbeResult]:
        return [finding.result for finding in self.findings]

    @property
    def title(self) -> str:
        """`The norm overflows on finite gradients: collect and 2 more`."""
        leader = self.worst
        targets = list(dict.fromkeys(short_target(finding.result.target) for finding in self.findings))
        probes = {finding.probe.id for finding in self.findings if finding.probe.scope == leader.probe.scope}
        return f"{leader.probe.title}: {listed(targets, 2) if len(probes) == 1 else targets[0]}"


def causes_of(sources: Sources) -> list[Cause]:
    """The findings of a run by their cause, the worst first, each with the ticket that tracks it."""
    return [Cause(group, *_ticket_of(group, sources.tickets)) for group in group_by_cause(_findings(sources))]


def _findings(sources: Sources) -> Iterator[Finding]:
    run = sources.run
    for result in run.results:
        if result.outcome is Outcome.REPRODUCED:
            probe = sources.probes.get(result.probe) or _unknown(result)
            yield Finding(probe, result, run.environment_of(result), run.id)


def _unknown(result: ProbeResult) -> ProbeInfo:
    """A probe whose definition is not here: it keeps its id and its severity."""
    return ProbeInfo(
        id=result.probe,
        version=result.probe_version,
        title=f"{result.probe} (this probe's definition is not known here)",
        severity=result.severity or Severity.P4,
        scope="source" if result.is_of_source else "target",
    )


def _ticket_of(group: Sequence[Finding], tickets: Sequence[Ticket]) -> tuple[str, str]:
    """By fingerprint an unfinished ticket first, else the one that the run filed."""
    wanted = {finding.result.fingerprint for finding in group}
    tracking = [ticket for ticket in tickets if wanted.intersection(ticket.findings)]
    if tracking:
        ticket = min(tracking, key=lambda one: one.status.is_finished)
        return ticket.id, ticket.status.value
    return next((finding.result.ticket for finding in group if finding.result.ticket), ""), ""
