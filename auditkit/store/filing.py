"""From a finding to its ticket: refreshed, reopened, or new; and nothing that people wrote is touched."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.ids import TicketId
from auditkit.model.text import inert_line
from auditkit.model.ticket import Status
from auditkit.rules.lifecycle import reopens
from auditkit.store.document import Document, EvidenceBlock
from auditkit.store.evidence import say_the_same
from auditkit.store.reader import read_ticket
from auditkit.store.repository import Entry, Repository


class FilingAction(StrEnum):
    """What filing a finding did."""

    CREATED = "created"
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

    `create` renders the whole ticket for a new id; `evidence` renders the block with both its markers,
    given the history lines that it must keep. `agent` is a code such as `PT`, `revision` the full commit
    or "" outside git.
    """

    fingerprint: str
    batch: int
    agent: str
    revision: str
    today: datetime.date
    create: Callable[[TicketId], bytes]
    evidence: Callable[[Sequence[str]], bytes]


def file_finding(repository: Repository, filing: Filing) -> Filed:
    """Give the finding its ticket, under one lock.

    A ticket that has the fingerprint gets a new evidence block, unless that would say the same. One that
    was finished as mended (fixed, closed, already-fixed) opens again: the block keeps a line saying when
    and at which revision the finding returned. wont-fix, not-a-bug, duplicate and deferred stay.
    Without such a ticket there is a new one. Raises StoreConflictError when it cannot be locked or
    written, and BadInputError for a fingerprint that no table cell can hold.
    """
    if not filing.fingerprint or filing.fingerprint != inert_line(filing.fingerprint):
        raise BadInputError(f"not a fingerprint: {filing.fingerprint!r}")
    with repository.writing():
        entry = repository.find_fingerprint(filing.fingerprint)
        if entry is None:
            return _create(repository, filing)
        return _refresh(repository, entry, filing)


def _create(repository: Repository, filing: Filing) -> Filed:
    ticket_id = repository.next_id(filing.batch, filing.agent)
    data = filing.create(ticket_id)
    if filing.fingerprint not in read_ticket(data, repository.path_of_new(ticket_id)).fingerprints:
        # Written so, it would never be found again, and every audit would file one more.
        raise ValueError(f"the rendered ticket {ticket_id} does not hold the fingerprint of its finding")
    return Filed(FilingAction.CREATED, ticket_id, repository.create(ticket_id, data).file)


def _refresh(repository: Repository, entry: Entry, filing: Filing) -> Filed:
    old = next(block for block in entry.document.evidence if block.fingerprint == filing.fingerprint)
    if reopens(entry.ticket.decision):
        repository.save(entry, _reopened(entry, old, filing))
        return Filed(FilingAction.REOPENED, entry.ticket.id, entry.file)
    document = entry.document
    block = document.in_own_newlines(filing.evidence(old.history))
    if say_the_same(document.data[old.span.start : old.span.end], block):
        return Filed(FilingAction.UNCHANGED, entry.ticket.id, entry.file)
    repository.save(entry, document.set_evidence(old, block))
    return Filed(FilingAction.REFRESHED, entry.ticket.id, entry.file)


def _reopened(entry: Entry, old: EvidenceBlock, filing: Filing) -> Document:
    revision = f"revision {filing.revision}" if filing.revision else "an unknown revision"
    line = (
        f"{filing.today.isoformat()}: returned at {revision}; "
        f"the status was {entry.ticket.status_written} and is {Status.OPEN} again"
    )
    document = entry.document.set_evidence(old, filing.evidence((*old.history, line)))
    document = document.set_field("Status", Status.OPEN.value)
    if document.field("Updated") is None:
        return document
    return document.set_field("Updated", filing.today.isoformat())
