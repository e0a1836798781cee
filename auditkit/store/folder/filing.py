"""From findings to tickets: refreshed, reopened, joined or new; and nothing that people wrote is touched."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.enums import Severity
from auditkit.model.runs.run import Finding
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import TicketId, id_parts
from auditkit.model.tickets.ticket import Status, Ticket
from auditkit.rules.lint.rule import FOLDERS
from auditkit.rules.tickets.lifecycle import reopens
from auditkit.store.edits.boxes import unticked
from auditkit.store.edits.reopening import reopened
from auditkit.store.edits.status import with_status
from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.folder.status_folders import Folders, place_of, put_in_place
from auditkit.store.listing.rows import FINGERPRINTS
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.evidence import ABSENT, say_the_same, without_finding
from auditkit.store.reading.reader import read_ticket, ticket_of


class FilingAction(StrEnum):
    """What filing a finding did: `joined` is a further finding of a ticket that another one made."""

    CREATED = "created"
    JOINED = "joined"
    REFRESHED = "refreshed"
    UNCHANGED = "unchanged"
    REOPENED = "reopened"


@dataclass(frozen=True)
class Filed:
    """The ticket of a finding, and what was done to it."""

    action: FilingAction
    id: TicketId
    path: Path


@dataclass(frozen=True)
class Forms:
    """How findings are written into tickets, and how new ones are numbered.

    `ticket` renders a whole ticket for findings and its new id; `evidence` a finding's block with both its
    markers, given the history lines that it must keep and the fingerprints of the blocks above it in the file;
    `banner` the block that says on what kinds of device the blocks of a ticket were taken; `relation` what two
    tickets have in common, "" where that is nothing. `agent` is a code such as `PT`, None that of the probe;
    `folders` are those for finished tickets, which one that opens again leaves; `ticket_from` is the least severity
    that is worth a new ticket.
    """

    batch: int
    today: datetime.date
    ticket: Callable[[Sequence[Finding], TicketId], bytes]
    evidence: Callable[[Finding, Sequence[str], Sequence[str]], bytes]
    banner: Callable[[Sequence[str]], bytes]
    relation: Callable[[Sequence[Finding], Sequence[Finding]], str]
    agent: str | None = None
    folders: Folders = field(default_factory=lambda: FOLDERS)
    ticket_from: Severity = Severity.P4


def file_findings(
    repository: Repository, groups: Sequence[Sequence[Finding]], forms: Forms
) -> dict[str, Filed | BadInputError]:
    """Give every finding its ticket, under one lock: for each fingerprint what was done, or why nothing.

    `groups` are findings of one cause each, the worst first. A ticket that has the fingerprint gets a new
    evidence block, unless that would say the same. One that was finished as mended (fixed, closed,
    already-fixed) opens again: the block keeps a line saying when and at which revision the finding returned; but not
    for a minor finding beside graver ones, which may stay.
    wont-fix, not-a-bug, duplicate and deferred stay.

    A new finding joins a ticket that another finding of its group has, unless that one is finished, deferred,
    or less severe. All others of the group make one new ticket together, which names the other tickets of these
    findings that are about the same code; where none of them is worth one, they have none. Raises StoreConflictError
    when the folder cannot be locked or written, and BadInputError for a fingerprint that no table cell can hold.
    """
    for fingerprint in (finding.result.fingerprint for group in groups for finding in group):
        if not fingerprint or fingerprint != inert_line(fingerprint):
            raise BadInputError(f"not a fingerprint: {fingerprint!r}")
    if not groups:
        return {}
    done: dict[str, Filed | BadInputError] = {}
    with repository.writing():
        for group in groups:
            done |= _file_group(repository, group, forms)
        _relate(repository, groups, done, forms)
    return done


def _file_group(repository: Repository, group: Sequence[Finding], forms: Forms) -> dict[str, Filed | BadInputError]:
    done: dict[str, Filed | BadInputError] = {}
    homes: dict[Path, Entry] = {}
    new = []
    for finding in group:
        fingerprint = finding.result.fingerprint
        try:
            entry = repository.find_fingerprint(fingerprint)
        except BadInputError as error:
            done[fingerprint] = error
            continue
        if entry is None:
            new.append(finding)
            continue
        action, entry = _refresh(repository, entry, finding, forms)
        homes[entry.file] = entry
        done[fingerprint] = Filed(action, entry.ticket.id, entry.file)
    without_home = []
    for finding in new:
        home = next((entry for entry in homes.values() if _takes(entry.ticket, finding)), None)
        if home is None:
            without_home.append(finding)
            continue
        homes[home.file] = repository.save(home, _joined(home.document, finding, forms))
        done[finding.result.fingerprint] = Filed(FilingAction.JOINED, home.ticket.id, home.file)
    is_worth_one = any(finding.severity.at_least(forms.ticket_from) for finding in without_home)
    return done | (_create(repository, without_home, forms) if is_worth_one else {})


def note_absence(
    repository: Repository, fingerprints: Mapping[str, int], revision: str, today: datetime.date
) -> dict[str, TicketId]:
    """Say in the blocks of these findings that they are not reproduced any more, under one lock.

    `fingerprints` are those of the findings, each with the version of the probe that was asked. The tickets whose
    text changed, by fingerprint. Only the block changes: whether a ticket is done is for people to say, and one
    that is finished, or cannot be read, is left alone. Raises StoreConflictError as `file_findings` does.
    """
    noted = {}
    held = {held for _, those in repository.known(FINGERPRINTS) for held in those}
    known = [fingerprint for fingerprint in fingerprints if fingerprint in held]
    if not known:
        return {}
    with repository.writing():
        for fingerprint in known:
            try:
                entry = repository.find_fingerprint(fingerprint)
            except BadInputError:
                continue
            if entry is None or (entry.ticket.decision is not None and entry.ticket.decision.is_finished):
                continue
            document = entry.document
            old = next(block for block in document.evidence if block.fingerprint == fingerprint)
            text = document.data[old.span.start : old.span.end]
            line = f"{today.isoformat()}: {ABSENT} at {_at(revision)} (version {fingerprints[fingerprint]})"
            changed = without_finding(text, line)
            if changed != text:
                repository.save(entry, document.set_evidence(old, changed))
                noted[fingerprint] = entry.ticket.id
    return noted


def _relate(
    repository: Repository,
    groups: Sequence[Sequence[Finding]],
    done: Mapping[str, Filed | BadInputError],
    forms: Forms,
) -> None:
    """Name in every new ticket the others about the same code; one without the section is left as it is."""
    tickets: dict[TicketId, list[Finding]] = {}
    created = []
    for finding in (finding for group in groups for finding in group):
        filed = done.get(finding.result.fingerprint)
        if isinstance(filed, Filed):
            tickets.setdefault(filed.id, []).append(finding)
            created += [filed.id] if filed.action is FilingAction.CREATED else []
    for ticket_id in created:
        lines = [
            f"- {other}: {words}"
            for other in sorted(tickets.keys() - {ticket_id}, key=id_parts)
            if (words := forms.relation(tickets[ticket_id], tickets[other]))
        ]
        if lines:
            entry = repository.find(ticket_id)
            repository.save(entry, entry.document.append_to_section("Related Findings", lines))


def _takes(ticket: Ticket, finding: Finding) -> bool:
    """Whether a new finding may join: people still look at the ticket, and at its severity or a worse one."""
    decision = ticket.decision
    is_put_away = decision is not None and (decision.is_finished or decision is Status.DEFERRED)
    return not is_put_away and (ticket.severity is None or ticket.severity.at_least(finding.severity))


def _create(repository: Repository, findings: Sequence[Finding], forms: Forms) -> dict[str, Filed]:
    ticket_id = repository.next_id(forms.batch, forms.agent or findings[0].probe.agent)
    fingerprints = [finding.result.fingerprint for finding in findings]
    data = forms.ticket(findings, ticket_id)
    held = read_ticket(data, repository.path_of_new(ticket_id)).fingerprints
    if not set(fingerprints) <= set(held):
        # Written so, it would never be found again, and every audit would file one more.
        raise ValueError(f"the rendered ticket {ticket_id} does not hold the fingerprint of its finding")
    file = repository.create(ticket_id, data).file
    actions = [FilingAction.CREATED] + [FilingAction.JOINED] * (len(findings) - 1)
    return {
        fingerprint: Filed(action, ticket_id, file) for fingerprint, action in zip(fingerprints, actions, strict=True)
    }


def _refresh(repository: Repository, entry: Entry, finding: Finding, forms: Forms) -> tuple[FilingAction, Entry]:
    document, revision = entry.document, finding.environment.revision
    blocks = document.evidence
    number = next(n for n, block in enumerate(blocks) if block.fingerprint == finding.result.fingerprint)
    old, above = blocks[number], [block.fingerprint for block in blocks[:number] if block.fingerprint]
    if reopens(entry.ticket.decision) and finding.result.fingerprint not in entry.ticket.may_stay:
        line = (
            f"{forms.today.isoformat()}: returned at {_at(revision)}; "
            f"the status was {entry.ticket.status_written} and is {Status.OPEN} again"
        )
        changed = document.set_evidence(old, forms.evidence(finding, (*old.history, line), above))
        changed = reopened(unticked(_with_banner(changed, forms), finding.result.fingerprint), forms.today)
        reason = f"{finding.result.fingerprint} returned at {_at(revision)}"
        document = with_status(changed, Status.OPEN, reason, forms.today)
        place_of(entry, ticket_of(document), forms.folders)
        saved = repository.save(entry, document)
        return FilingAction.REOPENED, put_in_place(repository, saved, forms.folders)
    history = list(old.history)
    if history and ABSENT in history[-1]:
        history.append(f"{forms.today.isoformat()}: returned at {_at(revision)}")
    block = document.in_own_newlines(forms.evidence(finding, history, above))
    if say_the_same(document.data[old.span.start : old.span.end], block):
        return FilingAction.UNCHANGED, entry
    changed = _with_banner(document.set_evidence(old, block), forms)
    if len(history) > len(old.history):
        changed = unticked(changed, finding.result.fingerprint)
    return FilingAction.REFRESHED, repository.save(entry, changed)


def _joined(document: Document, finding: Finding, forms: Forms) -> Document:
    """With one more block: below those of the same probe, else below the last one of a finding."""
    blocks = [block for block in document.evidence if block.fingerprint]
    probe = finding.result.fingerprint.partition("/")[0]
    same = [number for number, block in enumerate(blocks) if block.fingerprint.partition("/")[0] == probe]
    last = same[-1] if same else len(blocks) - 1
    above = [block.fingerprint for block in blocks[: last + 1]]
    return _with_banner(document.insert_evidence(blocks[last], forms.evidence(finding, (), above)), forms)


def _with_banner(document: Document, forms: Forms) -> Document:
    """With the banner that its blocks call for, where it has one: people may have taken it out."""
    if document.banner is None:
        return document
    devices = [block.device for block in document.evidence if block.fingerprint]
    return document.set_evidence(document.banner, forms.banner(devices))


def _at(revision: str) -> str:
    return f"revision {revision}" if revision else "an unknown revision"
