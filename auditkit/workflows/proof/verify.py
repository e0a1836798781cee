"""Verify a ticket: run its probes where the fix is, and tick what that proves; red first."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from auditkit.errors import BadInputError, ExitCode, StoreConflictError
from auditkit.model.codec import Record
from auditkit.model.runs.target import Target
from auditkit.model.tickets.claim import JudgedClaim
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts.checkout import CheckoutSpec, parse_checkout
from auditkit.rules.tickets.lifecycle import Missing, reopens
from auditkit.rules.tickets.proof import ProofState
from auditkit.store.edits.boxes import set_done
from auditkit.store.folder.repository import Change, Entry, Repository
from auditkit.store.markdown.document import Document
from auditkit.store.reading.claim_comments import judged_claims
from auditkit.store.reading.reader import ticket_of
from auditkit.workflows.audit.measurement import Progress
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.configuration import tickets_configuration
from auditkit.workflows.proof.before_after_runs import Check, before_and_after
from auditkit.workflows.proof.box_proofs import BoxProof, prove_boxes
from auditkit.workflows.proof.proof_blocks import with_check
from auditkit.workflows.proof.revisions import Revisions
from auditkit.workflows.proof.ticket_questions import questions_of
from auditkit.workflows.tickets.resolution import fix_history, lacking_for_fixed


@dataclass(frozen=True)
class VerifyRequest:
    """Which code proves what: `at` is the revision of the fix ("" for the files as they lie), `base` the broken one.

    `probes` narrow the ticket's questions down, or ask further ones; `targets` say what to ask, or how to feed
    what the ticket asks. `today` dates the line in the history.
    """

    checkout: str
    options: RunOptions = field(default_factory=RunOptions)
    at: str = ""
    base: str = ""
    probes: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    today: datetime.date = field(default_factory=datetime.date.today)


@dataclass(frozen=True)
class Verification(
    Record,
    keys="id=change.after.ticket.id path=change.after.file changed=change.is_edit revision dirty=is_dirty checks items "
    "claims missing=problems notes",
):
    """What was run and proven, how the ticket changed, and what it still lacks for `fixed`.

    `revision` is that of the fix, "" outside git; `is_dirty` with uncommitted changes.
    """

    schema_version: ClassVar[int] = 1

    change: Change
    revision: str
    is_dirty: bool
    checks: tuple[Check, ...]
    items: tuple[BoxProof, ...]
    claims: tuple[JudgedClaim, ...]
    missing: tuple[Missing, ...]
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """What it lacks, without the commands that give it."""
        return [one.problem for one in self.missing]


def verify(
    repository: Repository, ticket_id: str, request: VerifyRequest, progress: Progress | None = None
) -> Verification:
    """Run the ticket's questions at the fix and at the base, write the evidence, and tick what is proven.

    Everything is written at once or not at all. No status is moved. Raises BadInputError for a ticket that asks
    nothing, and for revisions, probes and targets that are not there; StoreConflictError where somebody changed
    the ticket's evidence or boxes meanwhile.
    """
    repository.ensure_writable()
    entry = repository.find(ticket_id)
    with Revisions(_spec_of(request), request.options, repository.folder) as code:
        checkouts = (code.open(revision) for revision in dict.fromkeys(["", request.base]))
        questions = questions_of(entry.ticket, request.options.config, checkouts, request.probes, request.targets)
        checks = before_and_after(questions, entry.ticket, code, request.base, progress)
        fix = code.open()
    boxes = prove_boxes(entry.ticket, checks)
    missing: tuple[Missing, ...] = ()

    def edit(current: Entry) -> Document:
        nonlocal missing
        _refuse_changed(current, entry)
        document = current.document
        for check in checks:
            document = with_check(document, check, boxes, request.today)
        document = set_done(document, {one.number: one.is_done for one in boxes})
        # Before anything is written, because a configuration that cannot be read stops it.
        missing = _missing(ticket_of(document), repository, fix.label if code.repository else None)
        return document

    change = repository.change(ticket_id, edit)
    notes = [*fix.notes, *(one.fix.note for one in checks), *(one.base_seen.note for one in checks if one.base_seen)]
    notes += _returned(change.after.ticket, checks)
    return Verification(
        change=change,
        revision=fix.revision,
        is_dirty=fix.dirty,
        checks=tuple(checks),
        items=boxes,
        claims=judged_claims(change.after.document, change.after.ticket),
        missing=missing,
        notes=tuple(dict.fromkeys(note for note in notes if note)),
    )


def exit_code(verification: Verification) -> ExitCode:
    """0: all that is bound is proven. 1: something reproduces or proves nothing; then 5, then 3: nothing to say.

    What the ticket lets stay says nothing, unless nothing else was asked.
    """
    asked = {check.question.probe.id for check in verification.checks}
    bound = [one.proof.state for one in verification.items if one.item.probe in asked]
    may_stay = verification.change.after.ticket.may_stay
    judging = [check for check in verification.checks if check.question.fingerprint not in may_stay]
    states = {*bound, *(check.proof.state for check in judging or verification.checks)}
    if ProofState.STILL_REPRODUCED in states or ProofState.VACUOUS in states:
        return ExitCode.FINDINGS
    if not all(check.fix.result.loaded for check in verification.checks):
        return ExitCode.TARGET_NOT_LOADED
    return ExitCode.NOTHING_MEASURED if ProofState.NOT_MEASURED in states else ExitCode.OK


def _spec_of(request: VerifyRequest) -> CheckoutSpec:
    spec = parse_checkout(request.checkout)
    if spec.revision and request.at:
        raise BadInputError(
            f"--at {request.at} and --checkout {request.checkout} both name a revision", "leave one out"
        )
    return spec.at(request.at)


def _refuse_changed(current: Entry, entry: Entry) -> None:
    if _judged(current.document, current.ticket) != _judged(entry.document, entry.ticket):
        raise StoreConflictError(
            f"{entry.file}: its evidence or its boxes changed while it was verified; nothing was written",
            f"auditkit ticket verify {entry.ticket.id}, again",
        )


def _judged(document: Document, ticket: Ticket) -> tuple[object, ...]:
    """What a verification rests on: nobody may change it meanwhile."""
    blocks = [document.data[block.span.start : block.span.end] for block in document.evidence]
    return (blocks, [(item.is_done, item.text, item.probe, item.condition) for item in ticket.verification])


def _returned(ticket: Ticket, checks: Sequence[Check]) -> list[str]:
    """That a ticket is finished as mended, although it reproduces: people, or the next audit, open it again."""
    graver = [one for one in checks if one.question.fingerprint not in ticket.may_stay]
    if not reopens(ticket.decision) or not any(one.proof.state is ProofState.STILL_REPRODUCED for one in graver):
        return []
    command = f'auditkit ticket status {ticket.id} open --reason "..."'
    return [f"{ticket.id} is {ticket.status_written}, but it reproduces: {command}"]


def _missing(ticket: Ticket, repository: Repository, checkout: str | None) -> tuple[Missing, ...]:
    if ticket.decision is not None and ticket.decision.is_finished:
        return ()
    config = tickets_configuration(repository)
    return lacking_for_fixed(ticket, fix_history(repository, config, checkout), config.agents)
