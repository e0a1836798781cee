"""From findings to tickets: refreshed, reopened, joined or new; and nothing that people wrote is touched."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.enums import Severity
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import TicketId
from auditkit.model.tickets.ticket import Status, Ticket
from auditkit.rules.tickets.lifecycle import reopens
from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.markdown.document import Document, EvidenceBlock
from auditkit.store.markdown.evidence import ABSENT, say_the_same, without_finding
from auditkit.store.reading.reader import read_ticket


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
class Filing:
    """A finding on its way to its ticket.

    `evidence` renders the block with both its markers, given the history lines that it must keep and the
    fingerprints of the blocks above it in the file.
    """

    fingerprint: str
    severity: Severity
    evidence: Callable[[Sequence[str], Sequence[str]], bytes]


@dataclass(frozen=True)
class Case:
    """Findings of one cause on their way to a ticket, the worst first.

    `create` renders a whole ticket for a new id and those of the findings whose fingerprints it is given;
    `banner` the block that says on what kinds of device the blocks of a ticket were taken. `agent` is a
    code such as `PT`, `revision` the full commit or "" outside git.
    """

    filings: Sequence[Filing]
    batch: int
    agent: str
    revision: str
    today: datetime.date
    create: Callable[[TicketId, Sequence[str]], bytes]
    banner: Callable[[Sequence[str]], bytes]


def file_case(repository: Repository, case: Case) -> dict[str, Filed | BadInputError]:
    """Give every finding its ticket, under one lock: for each fingerprint what was done, or why nothing.

    A ticket that has the fingerprint gets a new evidence block, unless that would say the same. One that
    was finished as mended (fixed, closed, already-fixed) opens again: the block keeps a line saying when
    and at which revision the finding returned. wont-fix, not-a-bug, duplicate and deferred stay.

    A new finding joins a ticket that another finding of the case has, unless that one is finished,
    deferred, or less severe. All others make one new ticket together. Raises StoreConflictError when the
    folder cannot be locked or written, and BadInputError for a fingerprint that no table cell can hold.
    """
    for filing in case.filings:
        if not filing.fingerprint or filing.fingerprint != inert_line(filing.fingerprint):
            raise BadInputError(f"not a fingerprint: {filing.fingerprint!r}")
    done: dict[str, Filed | BadInputError] = {}
    with repository.writing():
        homes: dict[Path, Entry] = {}
        new = []
        for filing in case.filings:
            try:
                entry = repository.find_fingerprint(filing.fingerprint)
            except BadInputError as error:
                done[filing.fingerprint] = error
                continue
            if entry is None:
                new.append(filing)
                continue
            action, homes[entry.file] = _refresh(repository, entry, filing, case)
            done[filing.fingerprint] = Filed(action, entry.ticket.id, entry.file)
        without_home = []
        for filing in new:
            home = next((entry for entry in homes.values() if _takes(entry.ticket, filing)), None)
            if home is None:
                without_home.append(filing)
                continue
            homes[home.file] = repository.save(home, _joined(home.document, filing, case))
            done[filing.fingerprint] = Filed(FilingAction.JOINED, home.ticket.id, home.file)
        done |= _create(repository, without_home, case) if without_home else {}
    return done


def note_absence(
    repository: Repository, fingerprints: Mapping[str, int], revision: str, today: datetime.date
) -> dict[str, TicketId]:
    """Say in the blocks of these findings that they are not reproduced any more, under one lock.

    `fingerprints` are those of the findings, each with the version of the probe that was asked. The tickets whose
    text changed, by fingerprint. Only the block changes: whether a ticket is done is for people to say, and one
    that is finished, or cannot be read, is left alone. Raises StoreConflictError as `file_case` does.
    """
    noted = {}
    held = {held for ticket in repository.listing().tickets for held in ticket.fingerprints}
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


def relate(repository: Repository, notes: Mapping[TicketId, Sequence[str]]) -> None:
    """Add lines to the Related Findings of tickets that this run made, under one lock.

    A ticket that cannot be read any more, or has no such section, is left as it is. Raises
    StoreConflictError as `file_case` does.
    """
    if not notes:
        return
    with repository.writing():
        for ticket_id, lines in notes.items():
            try:
                entry = repository.find(ticket_id)
            except BadInputError:
                continue
            repository.save(entry, entry.document.append_to_section("Related Findings", lines))


def _takes(ticket: Ticket, filing: Filing) -> bool:
    """Whether a new finding may join: people still look at the ticket, and at its severity or a worse one."""
    decision = ticket.decision
    is_put_away = decision is not None and (decision.is_finished or decision is Status.DEFERRED)
    return not is_put_away and (ticket.severity is None or ticket.severity.at_least(filing.severity))


def _create(repository: Repository, filings: Sequence[Filing], case: Case) -> dict[str, Filed]:
    ticket_id = repository.next_id(case.batch, case.agent)
    fingerprints = [filing.fingerprint for filing in filings]
    data = case.create(ticket_id, fingerprints)
    held = read_ticket(data, repository.path_of_new(ticket_id)).fingerprints
    if not set(fingerprints) <= set(held):
        # Written so, it would never be found again, and every audit would file one more.
        raise ValueError(f"the rendered ticket {ticket_id} does not hold the fingerprint of its finding")
    file = repository.create(ticket_id, data).file
    actions = [FilingAction.CREATED] + [FilingAction.JOINED] * (len(filings) - 1)
    return {
        fingerprint: Filed(action, ticket_id, file) for fingerprint, action in zip(fingerprints, actions, strict=True)
    }


def _refresh(repository: Repository, entry: Entry, filing: Filing, case: Case) -> tuple[FilingAction, Entry]:
    document = entry.document
    blocks = document.evidence
    number = next(n for n, block in enumerate(blocks) if block.fingerprint == filing.fingerprint)
    old, above = blocks[number], [block.fingerprint for block in blocks[:number] if block.fingerprint]
    if reopens(entry.ticket.decision):
        changed = _reopened(entry, old, above, filing, case)
        return FilingAction.REOPENED, repository.save(entry, _with_banner(changed, case))
    history = list(old.history)
    if history and ABSENT in history[-1]:
        history.append(f"{case.today.isoformat()}: returned at {_at(case.revision)}")
    block = document.in_own_newlines(filing.evidence(history, above))
    if say_the_same(document.data[old.span.start : old.span.end], block):
        return FilingAction.UNCHANGED, entry
    changed = _with_banner(document.set_evidence(old, block), case)
    return FilingAction.REFRESHED, repository.save(entry, changed)


def _joined(document: Document, filing: Filing, case: Case) -> Document:
    """With one more block: below those of the same probe, else below the last one of a finding."""
    blocks = [block for block in document.evidence if block.fingerprint]
    probe = filing.fingerprint.partition("/")[0]
    same = [number for number, block in enumerate(blocks) if block.fingerprint.partition("/")[0] == probe]
    last = same[-1] if same else len(blocks) - 1
    above = [block.fingerprint for block in blocks[: last + 1]]
    return _with_banner(document.insert_evidence(blocks[last], filing.evidence((), above)), case)


def _with_banner(document: Document, case: Case) -> Document:
    """With the banner that its blocks call for, where it has one: people may have taken it out."""
    if document.banner is None:
        return document
    devices = [block.device for block in document.evidence if block.fingerprint]
    return document.set_evidence(document.banner, case.banner(devices))


def _reopened(entry: Entry, old: EvidenceBlock, above: Sequence[str], filing: Filing, case: Case) -> Document:
    line = (
        f"{case.today.isoformat()}: returned at {_at(case.revision)}; "
        f"the status was {entry.ticket.status_written} and is {Status.OPEN} again"
    )
    document = entry.document.set_evidence(old, filing.evidence((*old.history, line), above))
    document = document.set_field("Status", Status.OPEN.value)
    if document.field("Updated") is None:
        return document
    return document.set_field("Updated", case.today.isoformat())


def _at(revision: str) -> str:
    return f"revision {revision}" if revision else "an unknown revision"
