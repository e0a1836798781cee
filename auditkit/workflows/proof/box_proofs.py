"""What the two runs prove of each box of a ticket, and which boxes that ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditkit.model.codec import Record
from auditkit.model.tickets.claim import parse_condition
from auditkit.model.tickets.ticket import Ticket, VerificationItem
from auditkit.rules.tickets.proof import Proof, ProofState, prove, worst
from auditkit.workflows.proof.before_after_runs import Check
from auditkit.workflows.proof.ticket_questions import called_by


@dataclass(frozen=True)
class BoxProof(
    Record,
    keys="number text=item.text probe=item.probe condition=item.condition state=proof.state reason=proof.reason "
    "was_done=item.is_done is_done",
):
    """A box of the ticket: its number from 1, what was shown of it, and whether it was ticked and is.

    `fingerprint` is the question in whose block it is told, "" for none.
    """

    number: int
    item: VerificationItem
    proof: Proof
    is_done: bool
    fingerprint: str = ""


def prove_boxes(ticket: Ticket, checks: Sequence[Check]) -> tuple[BoxProof, ...]:
    """Every box of the ticket: all questions of its probe speak for it, or the one that its own command names."""
    return tuple(_box_proof(number, item, checks) for number, item in enumerate(ticket.verification, start=1))


def _box_proof(number: int, item: VerificationItem, checks: Sequence[Check]) -> BoxProof:
    own = _checks_of(item, checks)
    fingerprint = own[0].question.fingerprint if own else ""
    proof = _proof(item, own)
    is_done = (item.is_done or proof.state is ProofState.PROVEN) and proof.state is not ProofState.STILL_REPRODUCED
    return BoxProof(number, item, proof, is_done, fingerprint)


def _proof(item: VerificationItem, own: Sequence[Check]) -> Proof:
    if not item.probe:
        return Proof(ProofState.UNBOUND, "a person's to check")
    if not own:
        return Proof(ProofState.NOT_MEASURED, f"{item.probe} was not asked")
    try:
        condition = parse_condition(item.condition) if item.condition else None
    except ValueError as error:
        return Proof(ProofState.NOT_MEASURED, str(error))
    return worst(prove(check.base_sighting, check.fix.sighting, condition, check.base.why_not) for check in own)


def _checks_of(item: VerificationItem, checks: Sequence[Check]) -> list[Check]:
    own = [check for check in checks if item.probe and check.question.probe.id == item.probe]
    call = called_by(item)
    return [check for check in own if check.question.target.call == call] or own
