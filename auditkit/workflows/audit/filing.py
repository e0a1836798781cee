"""From a judged run to its tickets: one for each cause, the worst first, linked where they are about the same code."""

from __future__ import annotations

import datetime
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Finding, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.model.tickets.ids import AGENT_NAMES, TicketId
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec, parse_checkout
from auditkit.rendering.evidence import render_banner, render_evidence
from auditkit.rendering.markdown import line
from auditkit.rendering.ticket import render_ticket
from auditkit.rules.lint.rule import FOLDERS
from auditkit.rules.tickets.grouping import group_by_cause, relation
from auditkit.store.folder.filing import Filed, Forms, file_findings, note_absence
from auditkit.store.folder.repository import Repository
from auditkit.store.folder.status_folders import Folders

_PATH_OPTIONS = frozenset((
    "--tickets", "--config", "--sarif", "--junit", "--gitlab", "--csv", "--html", "--summary", "--output",
))  # fmt: skip


@dataclass(frozen=True)
class Root:
    """Where a ticket's commands are run from: the top of the checkout's repository, else the checkout itself.

    Whoever reads the ticket has the repository, and not the machine on which it was written.
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

    def command(self, typed: str, checkout: str) -> str:
        """What the user typed, with every path as it is from there; `checkout` is the one that was meant."""
        words = shlex.split(typed)
        return shlex.join(self._words(words, checkout)) if words else ""

    def _words(self, words: Sequence[str], checkout: str) -> Iterator[str]:
        for before, word in zip(["", *words], words, strict=False):
            option, equals, value = word.partition("=")
            if word.startswith("--") and equals:
                yield f"{option}={self._value(option, value, checkout)}"
            else:
                yield self._value(before, word, checkout)

    def _value(self, option: str, value: str, checkout: str) -> str:
        if value == checkout and (os.sep in value or option == "--checkout" or not option.startswith("--")):
            spec = parse_checkout(value)
            return self.path(spec.directory) + f"@{spec.revision}" * bool(spec.revision)
        is_path = option in _PATH_OPTIONS or os.path.isabs(value) or (os.sep in value and os.path.exists(value))
        return self.path(value) if is_path else value


@dataclass(frozen=True)
class Paperwork:
    """What new tickets say beside the finding: batch, agent's code (None: the probe's), and how it was asked.

    `root` is where commands are run from, and `source` the checkout's directory there, without a revision;
    `command` is what the user typed. `asked_as`
    names the probes that were given as files, `options` are words that ask the same way again; `agents` are
    agents' names by code; `folders` are those for finished tickets, which one that opens again leaves.
    `asked_by_name` says that the probes were named: then a finding of P4 is worth a ticket of its own, too.
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
    root: Root = field(default_factory=lambda: Root(Path.cwd()))
    asked_by_name: bool = False

    def forms(self, today: datetime.date) -> Forms:
        """How the store writes findings down."""
        return Forms(
            batch=self.batch,
            today=today,
            ticket=self.ticket,
            evidence=render_evidence,
            banner=render_banner,
            relation=lambda some, others: line(relation(some, others)),
            agent=self.agent,
            folders=self.folders,
            ticket_from=self.ticket_from,
        )

    @property
    def ticket_from(self) -> Severity:
        """The least severity that is worth a new ticket."""
        return Severity.P4 if self.asked_by_name else Severity.P3

    def ticket(self, findings: Sequence[Finding], ticket_id: TicketId) -> bytes:
        """A new ticket for findings of one cause, the worst first."""
        location = findings[0].result.location
        domain = _domain(location.file) if location else ""
        return render_ticket(findings, ticket_id, datetime.date.today(), domain, self.command, agents=self.agents)


def file_run(run: Run, repository: Repository, paperwork: Paperwork) -> Run:
    """The run with its findings' tickets; nothing is closed, whatever the run says or does not mention.

    A finding of P4 that nobody asked for by name has a ticket only where it shares the cause of a graver one.
    Findings of one cause share a ticket, and new tickets name those about the same function or target;
    see docs/design/grouping.md. What was asked and is not reproduced any more is said in its block, and in
    a note. A finding whose ticket cannot be read stays without one, with a note.
    Raises StoreConflictError where the folder is locked or cannot be written.
    """
    today, place = datetime.date.today(), run.environment
    revision = f"{place.revision} with uncommitted changes" if place.dirty else place.revision
    absent = [result for result in run.results if result.outcome is Outcome.NOT_REPRODUCED]
    done = file_findings(repository, findings_by_cause(run, paperwork), paperwork.forms(today))
    gone = note_absence(repository, {result.fingerprint: result.probe_version for result in absent}, revision, today)
    notes = [
        f"no ticket for {fingerprint}: {outcome.message}"
        for fingerprint, outcome in done.items()
        if isinstance(outcome, BadInputError)
    ]
    notes += [f"{ticket_id}: {fingerprint} is not reproduced any more" for fingerprint, ticket_id in gone.items()]
    results = tuple(_with_ticket(result, done.get(result.fingerprint)) for result in run.results)
    return replace(run, results=results, notes=(*run.notes, *notes))


def findings_by_cause(run: Run, paperwork: Paperwork) -> list[tuple[Finding, ...]]:
    """The findings that may have tickets, those of one cause together, the worst first."""
    # Nobody can mend here what torch's own function does, and nobody watches it here.
    torchs = {reading.target.call for reading in run.targets if reading.target.places}
    found = [one for one in run.results if one.outcome is Outcome.REPRODUCED and one.target not in torchs]
    return group_by_cause(_finding(run, result, paperwork) for result in found)


def without_ticket(run: Run, repository: Repository | None, paperwork: Paperwork) -> list[tuple[Finding, ...]]:
    """Of the findings by their causes those that are worth a new ticket: what has one keeps its text."""
    least = paperwork.ticket_from
    groups = [
        group
        for group in findings_by_cause(run, paperwork)
        if group[0].severity.at_least(least) and not any(one.result.owner for one in group)
    ]
    if repository is None:
        return groups
    held = {held for ticket in repository.listing().tickets for held in ticket.fingerprints}
    return [group for group in groups if not held.intersection(one.result.fingerprint for one in group)]


def _with_ticket(result: ProbeResult, outcome: Filed | BadInputError | None) -> ProbeResult:
    if result.outcome is not Outcome.REPRODUCED or not isinstance(outcome, Filed):
        return result
    return replace(result, ticket=str(outcome.id), ticket_action=outcome.action.value)


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
    )


def _arm_words(run: Run, result: ProbeResult, root: Root) -> list[str]:
    """The options that ask in the arm whose figures the ticket shows, where there are several."""
    words = []
    if len({arm.environment.interpreter for arm in result.arms}) > 1:
        words += ["--python", root.path(run.environment_of(result).interpreter)]
    if len({arm.device for arm in result.arms}) > 1:
        words += ["--device", result.device]
    return words


def _target(run: Run, result: ProbeResult) -> Target | None:
    """The target that was asked; where one function is several of them, the fingerprint says which."""
    same = [reading.target for reading in run.targets if reading.target.call == result.target]
    ordinal = re.search(r"#(\d+)$", result.fingerprint)
    number = int(ordinal[1]) if ordinal else 0
    return same[number] if number < len(same) else None


def _domain(file: str) -> str:
    """The part of the code base that a file belongs to: its folders, without those that hold all sources.

    A file that lies in none is a part of its own.
    """
    *folders, name = file.split("/")
    return "/".join([part for part in folders if part not in ("src", "lib", "python")][-2:]) or name.removesuffix(".py")
