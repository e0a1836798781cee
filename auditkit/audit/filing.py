"""From a judged run to its tickets: one for each cause, the worst first, linked where they are about the same code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditkit.model.enums import Outcome, Severity
from auditkit.model.grouping import group_by_cause
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Finding, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.model.ticket import AGENT_NAMES
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import CheckoutSpec
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.reproduce import Reproduction, reproduction
from auditkit.tickets.filing import FilingOptions, file_findings
from auditkit.tickets.store import TicketFolder
from auditkit.trials.no_fix import was_not_searched


@dataclass(frozen=True)
class Root:
    """Where a ticket's commands are run from: the top of the checkout's repository, else the checkout itself.

    A reader of the ticket has the repository, but not the machine on which auditkit wrote it.
    """

    folder: Path

    @classmethod
    def of(cls, checkout: CheckoutSpec) -> Root:
        """That of a checkout."""
        repository = git.find_repository(checkout.directory)
        is_in_tree = repository is not None and repository.has_work_tree
        return cls(repository.top if repository is not None and is_in_tree else checkout.directory.resolve())

    def path(self, path: str | Path) -> str:
        """The way to a file or folder from there. Its own name is not resolved: an interpreter is a link."""
        place = Path(path).expanduser().absolute()
        return os.path.relpath(place.parent.resolve() / place.name, self.folder)


@dataclass(frozen=True)
class Paperwork:
    """What new tickets say beside the finding: batch, agent's code (None: the probe's), and how the user called it.

    `root` is where commands are run from, and `source` the checkout's directory there, without a revision. `asked_as`
    names the probes that were given as files, `options` are words for the command that checks a finding again; `agents`
    are agents' names by code. `asked_by_name` means that the user named the probes: then a finding of P4 gets a ticket
    of its own, too. `read` returns a file of the audited revision.
    """

    probes: Mapping[str, ProbeInfo]
    batch: int
    agent: str | None
    source: str
    asked_as: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    agents: Mapping[str, str] = field(default_factory=lambda: dict(AGENT_NAMES))
    root: Root = field(default_factory=lambda: Root(Path.cwd()))
    asked_by_name: bool = False
    read: Callable[[str], str | None] = lambda _: None

    @property
    def ticket_from(self) -> Severity:
        """The least severity that is worth a new ticket."""
        return Severity.P4 if self.asked_by_name else Severity.P3


def file_run(run: Run, folder: TicketFolder, paperwork: Paperwork) -> Run:
    """Return the run with its findings' tickets; auditkit closes no ticket.

    A finding of P4 whose probe was not named has a ticket only if it shares the cause of a worse one; see
    docs/design/grouping.md. Raises StoreConflictError if the folder is locked or cannot be written.
    """
    options = FilingOptions(paperwork.batch, paperwork.agent, paperwork.agents, paperwork.ticket_from, paperwork.read)
    absent = {result.fingerprint: result for result in run.results if result.outcome is Outcome.NOT_REPRODUCED}
    groups = findings_by_cause(run, paperwork)
    done, notes = file_findings(folder, groups, absent, options, run.environment)
    results = []
    for one in run.results:
        filed = done.get(one.fingerprint) if one.outcome is Outcome.REPRODUCED else None
        results.append(replace(one, ticket=filed.id, ticket_action=filed.action.value) if filed else one)
    return replace(run, results=tuple(results), notes=(*run.notes, *notes))


def findings_by_cause(run: Run, paperwork: Paperwork) -> list[tuple[Finding, ...]]:
    """The findings that may have tickets, those of one cause together, the worst first."""
    # A finding in torch's own function cannot be fixed in this repository.
    torchs = {reading.target.call for reading in run.targets if reading.target.places}
    found = [one for one in run.results if one.outcome is Outcome.REPRODUCED and one.target not in torchs]
    return group_by_cause(_finding(run, result, paperwork) for result in found)


def without_ticket(
    run: Run, folder: TicketFolder | None, paperwork: Paperwork, or_fix: bool = False
) -> list[tuple[Finding, ...]]:
    """Return the findings by cause that get a new ticket; `or_fix`: also those that need a search for a fix."""
    groups = [(group, {one.result.fingerprint for one in group}) for group in findings_by_cause(run, paperwork)]
    found = {name for _, names in groups for name in names}
    tickets = folder.listing().tickets if folder is not None and folder.folder.is_dir() else ()
    held = {name for ticket in tickets for name in ticket.findings}
    untried: set[str] = set()
    for ticket in tickets if folder is not None and or_fix else ():
        is_met = not ticket.status.is_finished and not found.isdisjoint(ticket.findings)
        evidence = folder.evidence(ticket.id) if folder is not None and is_met else None
        if evidence is not None and not evidence.fixes:
            untried |= {name for name, why in evidence.no_fix.items() if was_not_searched(why)}
    new = [
        group
        for group, names in groups
        if group[0].severity.at_least(paperwork.ticket_from)
        and not (names & held or any(one.result.owner for one in group))
    ]
    return [*new, *(group for group, names in groups if names & untried)]


def with_reproductions(run: Run, groups: Iterable[Sequence[Finding]], setting: Setting) -> Run:
    """Return the run with a script, or the reason for none, by the fingerprint of the first finding of each group.

    The findings of a group share a cause and a ticket, the worst first. The first script that shows its defect is kept.
    """
    scripts, reasons = dict(run.scripts), dict(run.no_script)
    readings = {reading.target.call: reading for reading in run.targets}
    for group in groups:
        name = group[0].result.fingerprint
        for finding in group:
            made = reproduction(finding.result, readings.get(finding.result.target), setting)
            if isinstance(made, Reproduction):
                scripts[name] = made.markdown()
                reasons.pop(name, None)
                break
            reasons.setdefault(name, made.reason)
    return replace(run, scripts=scripts, no_script=reasons)


def _finding(run: Run, result: ProbeResult, paperwork: Paperwork) -> Finding:
    return Finding(
        probe=paperwork.probes[result.probe],
        result=result,
        environment=run.environment_of(result),
        run_id=run.id,
        target=_target(run, result),
        source=paperwork.source,
        asked_as=paperwork.asked_as.get(result.probe, ""),
        options=(*paperwork.options, *_arm_words(run, result, paperwork.root)),
        fix=next((fix for fix in run.fixes if result.fingerprint in fix.mends), None),
        no_fix=run.no_fix.get(result.fingerprint, ""),
        reproduction=run.scripts.get(result.fingerprint, ""),
        no_reproduction=run.no_script.get(result.fingerprint, ""),
    )


def _arm_words(run: Run, result: ProbeResult, root: Root) -> list[str]:
    """Return the options of the arm whose figures the ticket shows, if there are several."""
    words = []
    if len({arm.environment.interpreter for arm in result.arms}) > 1:
        words += ["--python", root.path(run.environment_of(result).interpreter)]
    if len({arm.device for arm in result.arms}) > 1:
        words += ["--device", result.device]
    return words


def _target(run: Run, result: ProbeResult) -> Target | None:
    """Return the target of a result; if one function is several targets, the fingerprint names it."""
    same = [reading.target for reading in run.targets if reading.target.call == result.target]
    ordinal = re.search(r"#(\d+)$", result.fingerprint)
    number = int(ordinal[1]) if ordinal else 0
    return same[number] if number < len(same) else None
