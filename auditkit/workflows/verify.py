"""Verify a ticket: run its probes where the fix is, and tick what that proves; red first."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from auditkit.errors import BadInputError, ExitCode, StoreConflictError
from auditkit.model.claim import JudgedClaim, parse_condition
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import fingerprint
from auditkit.model.target import Target
from auditkit.model.ticket import Ticket, VerificationItem
from auditkit.probing import git
from auditkit.probing.catalog import load_catalog, select
from auditkit.probing.checkout import parse_checkout
from auditkit.rules.lifecycle import Missing, reopens
from auditkit.rules.proof import Proof, ProofState, prove, worst
from auditkit.store.document import Document
from auditkit.store.edits.boxes import set_done
from auditkit.store.repository import Change, Entry, Repository
from auditkit.workflows.bound import Question, bound_questions, called_by, first_located
from auditkit.workflows.claims import claims_of
from auditkit.workflows.closing import lacking_for_fixed
from auditkit.workflows.measuring import Progress
from auditkit.workflows.proving import Check, OpenedAt, Place, make_checks, sighting_of
from auditkit.workflows.run_options import RunOptions
from auditkit.workflows.writing_proof import with_check


@dataclass(frozen=True)
class VerifyRequest:
    """Which code proves what: `at` is the revision of the fix ("" for the files as they lie), `base` the broken one.

    `probes` narrow the ticket's questions down, or ask further ones; `targets` say what to ask, or how to feed
    what the ticket asks. `today` dates the line in the history.
    """

    checkout: str
    manner: RunOptions = field(default_factory=RunOptions)
    at: str = ""
    base: str = ""
    probes: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    today: datetime.date = field(default_factory=datetime.date.today)


@dataclass(frozen=True)
class ItemProof:
    """A box of the ticket: its number from 1, what was shown of it, and whether it was ticked and is."""

    number: int
    item: VerificationItem
    proof: Proof
    is_done: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "text": self.item.text,
            "probe": self.item.probe,
            "condition": self.item.condition,
            "state": self.proof.state.value,
            "reason": self.proof.reason,
            "was_done": self.item.is_done,
            "is_done": self.is_done,
        }


@dataclass(frozen=True)
class Verification:
    """What was run and proven, how the ticket changed, and what it still lacks for `fixed`."""

    change: Change
    at: OpenedAt
    checks: tuple[Check, ...]
    items: tuple[ItemProof, ...]
    claims: tuple[JudgedClaim, ...]
    missing: tuple[Missing, ...]
    notes: tuple[str, ...] = ()


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
    place = _place(request)
    questions = _questions(entry.ticket, request, place)
    conditions = _needs_rows(entry.ticket, questions)
    checks, at = make_checks(questions, entry.ticket, place, request.base, conditions, progress)
    items = tuple(_item_proofs(entry.ticket, checks))

    def edit(current: Entry) -> Document:
        if _judged(current.document, current.ticket) != _judged(entry.document, entry.ticket):
            raise StoreConflictError(
                f"{entry.file}: its evidence or its boxes changed while it was verified; nothing was written",
                f"auditkit ticket verify {entry.ticket.id}, again",
            )
        document = current.document
        for check in checks:
            document = with_check(document, check, _boxes_of(check, items, checks), place, at, request.today)
        return set_done(document, {one.number: one.is_done for one in items})

    change = repository.change(ticket_id, edit)
    notes = [*at.notes, *(one.fix.note for one in checks), *(one.base_seen.note for one in checks if one.base_seen)]
    notes += _returned(change.after.ticket, checks)
    return Verification(
        change=change,
        at=at,
        checks=tuple(checks),
        items=items,
        claims=claims_of(change.after),
        missing=_missing(change.after, repository, place),
        notes=tuple(dict.fromkeys(note for note in notes if note)),
    )


def exit_code(verification: Verification) -> ExitCode:
    """0: all that is bound is proven. 1: something reproduces or proves nothing; then 5, then 3: nothing to say."""
    asked = {check.question.probe.id for check in verification.checks}
    bound = [one.proof.state for one in verification.items if one.item.probe in asked]
    states = {*bound, *(check.proof.state for check in verification.checks)}
    if ProofState.STILL_REPRODUCED in states or ProofState.VACUOUS in states:
        return ExitCode.FINDINGS
    if not all(check.fix.result.loaded for check in verification.checks):
        return ExitCode.TARGET_NOT_LOADED
    return ExitCode.NOTHING_MEASURED if ProofState.NOT_MEASURED in states else ExitCode.OK


def _place(request: VerifyRequest) -> Place:
    spec = parse_checkout(request.checkout)
    if spec.revision and request.at:
        raise BadInputError(
            f"--at {request.at} and --checkout {request.checkout} both name a revision", "leave one out"
        )
    return Place(spec, git.find_repository(spec.directory), request.at or spec.revision, request.manner)


def _questions(ticket: Ticket, request: VerifyRequest, place: Place) -> tuple[Question, ...]:
    """What the ticket asks, and what its boxes and the request ask besides. Raises BadInputError for nothing."""
    catalog = load_catalog(request.manner.config.probes_dir)
    bound = [_fed(question, request.targets) for question in bound_questions(ticket, request.manner.config, catalog)]
    wanted = select(catalog, request.probes) if request.probes else []
    boxes = dict.fromkeys(item.probe for item in ticket.verification if item.probe)
    further = [name for name in boxes if not any(question.probe.id == name for question in bound)]
    known = list({question.probe.id: question.probe for question in bound}.values())
    probes = wanted or [*known, *(select(catalog, further) if further else ())]
    if not probes:
        raise BadInputError(
            f"{ticket.id} is bound to no probe",
            f"--probe CLAIM, or bind a box: auditkit ticket edit {ticket.id} bound 1=CLAIM; auditkit probe list",
        )
    questions: dict[str, Question] = {}
    for probe in probes:
        asked = [question for question in bound if question.probe.id == probe.id]
        for question in asked or _further(probe, ticket, request, place, bound):
            questions.setdefault(question.fingerprint, question)
    return tuple(questions.values())


def _further(
    probe: ProbeInfo, ticket: Ticket, request: VerifyRequest, place: Place, bound: Sequence[Question]
) -> list[Question]:
    """A probe that the ticket's evidence does not know, about the named targets, its own, or those of its Location."""
    targets = list(request.targets) or list({one.target.call: one.target for one in bound}.values())
    targets = targets or [_located(ticket, request, place)]
    return [Question(probe, target, fingerprint(probe.id, target.call)) for target in targets]


def _located(ticket: Ticket, request: VerifyRequest, place: Place) -> Target:
    """The function of the Location where the fix is, else at the base."""
    revisions = [place.at, *([request.base] if request.base else [])]
    return first_located(ticket, map(place.open, revisions), request.manner.config)


def _fed(question: Question, targets: Sequence[Target]) -> Question:
    """The question with its target as the user describes it."""
    named = next((target for target in targets if target.call == question.target.call), None)
    return replace(question, target=named) if named is not None else question


def _needs_rows(ticket: Ticket, questions: Sequence[Question]) -> frozenset[str]:
    conditioned = {item.probe for item in ticket.verification if item.condition}
    return frozenset(question.fingerprint for question in questions if question.probe.id in conditioned)


def _item_proofs(ticket: Ticket, checks: Sequence[Check]) -> list[ItemProof]:
    return [_item_proof(number, item, checks) for number, item in enumerate(ticket.verification, start=1)]


def _item_proof(number: int, item: VerificationItem, checks: Sequence[Check]) -> ItemProof:
    """What the checks say of one box: all questions of its probe, or the one that its own command names."""
    own = _checks_of(item, checks)
    if not item.probe:
        return ItemProof(number, item, Proof(ProofState.UNBOUND, "a person's to check"), item.is_done)
    if not own:
        return ItemProof(number, item, Proof(ProofState.NOT_MEASURED, f"{item.probe} was not asked"), item.is_done)
    try:
        condition = parse_condition(item.condition) if item.condition else None
    except ValueError as error:
        return ItemProof(number, item, Proof(ProofState.NOT_MEASURED, str(error)), item.is_done)
    proof = worst(prove(check.base_sighting, sighting_of(check.fix), condition, check.base.why_not) for check in own)
    is_done = item.is_done or proof.state is ProofState.PROVEN
    return ItemProof(number, item, proof, is_done and proof.state is not ProofState.STILL_REPRODUCED)


def _checks_of(item: VerificationItem, checks: Sequence[Check]) -> list[Check]:
    own = [check for check in checks if check.question.probe.id == item.probe]
    call = called_by(item)
    return [check for check in own if check.question.target.call == call] or own


def _boxes_of(check: Check, items: Sequence[ItemProof], checks: Sequence[Check]) -> list[ItemProof]:
    """The boxes that are told in the block of this question: the first of those that they ask."""
    return [one for one in items if next(iter(_checks_of(one.item, checks)), None) is check]


def _judged(document: Document, ticket: Ticket) -> tuple[object, ...]:
    """What a verification rests on: nobody may change it meanwhile."""
    blocks = [document.data[block.span.start : block.span.end] for block in document.evidence]
    return (blocks, [(item.is_done, item.text, item.probe, item.condition) for item in ticket.verification])


def _returned(ticket: Ticket, checks: Sequence[Check]) -> list[str]:
    """That a ticket is finished as mended, although it reproduces: people, or the next audit, open it again."""
    if not reopens(ticket.decision) or not any(one.proof.state is ProofState.STILL_REPRODUCED for one in checks):
        return []
    command = f'auditkit ticket status {ticket.id} open --reason "..."'
    return [f"{ticket.id} is {ticket.status_written}, but it reproduces: {command}"]


def _missing(entry: Entry, repository: Repository, place: Place) -> tuple[Missing, ...]:
    if entry.ticket.decision is not None and entry.ticket.decision.is_finished:
        return ()
    return lacking_for_fixed(entry, repository, place.label if place.repository else None)
