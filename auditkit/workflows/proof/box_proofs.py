"""What the two runs prove of each box of a ticket, and which boxes that ticks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.model.codec import Record
from auditkit.model.runs.target import Target
from auditkit.model.tickets.claim import parse_condition
from auditkit.model.tickets.ticket import Ticket, VerificationItem
from auditkit.rules.tickets.proof import Proof, ProofState, prove, worst
from auditkit.workflows.proof.before_after_runs import Check
from auditkit.workflows.proof.box_commands import BoxCommand, commands_in, names_in


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
    """Every box of the ticket: all questions of its probe speak for it, or those that it names.

    What may stay speaks only for a box that names it, or whose probe has nothing else.
    A box that holds a command is about that command: runs that asked something else, or less, prove nothing of it.
    """
    boxes = enumerate(ticket.verification, start=1)
    return tuple(_box_proof(number, item, _checks_of(item, checks, ticket.may_stay)) for number, item in boxes)


def _box_proof(number: int, item: VerificationItem, own: Sequence[Check]) -> BoxProof:
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
    commands = commands_in(item.text)
    for command in commands:
        if reason := _asked_otherwise(command, item.probe, own):
            return Proof(ProofState.NOT_MEASURED, reason)
    proof = worst(prove(check.base_sighting, check.fix.sighting, condition, check.base.why_not) for check in own)
    if proof.state is not ProofState.STILL_REPRODUCED:
        for command in commands:
            proof = _proof_of_more(command, item, own) or proof
    return proof


def _checks_of(item: VerificationItem, checks: Sequence[Check], may_stay: Collection[str]) -> list[Check]:
    own = [check for check in checks if item.probe and check.question.probe.id == item.probe]
    calls = {target.call for command in commands_in(item.text) for target in command.targets}
    names = calls or names_in(item.text)
    named = [check for check in own if names & _names_of(check)]
    return named or [check for check in own if check.question.fingerprint not in may_stay] or own


def _names_of(check: Check) -> set[str]:
    target = check.question.target
    return {target.call, target.name} if target.name else {target.call}


def _asked_otherwise(command: BoxCommand, probe: str, own: Sequence[Check]) -> str:
    """In what the runs differ from the command, "" where they are among those that it makes."""
    if probe not in command.probes:
        return f"`{command}` does not ask {probe}: a person's to run"
    fix = own[0].fix
    device, python, revision = command.option("--device"), command.option("--python"), command.revision
    if device not in ("", "auto", fix.result.device):
        return f"its command asks on {device}, and the run was on {fix.result.device or 'none'}"
    # The way to an interpreter is another one from the repository's top.
    if python and Path(python).name != Path(fix.environment.interpreter).name:
        return f"its command asks with {python}, and the run was with {fix.environment.interpreter or 'none'}"
    if revision and not fix.environment.revision.startswith(revision):
        return f"its command asks at {revision}, and the run was at {fix.environment.revision[:12] or 'no revision'}"
    asked = {name: check.question.target for check in own for name in _names_of(check)}
    for target in command.targets if own[0].question.probe.scope == "target" else ():
        if target.call not in asked:
            return f"its command asks {target.call}, which was not asked"
        if option := _other_option(target, asked[target.call]):
            return f"its command asks {target.call} with another {option}"
    return ""


def _other_option(written: Target, asked: Target) -> str:
    """The first option in which they differ; a contract and a way to be fed that nobody names are found by trying."""
    differ = {
        "--contract": bool(written.contract and asked.contract) and written.contract is not asked.contract,
        "--takes": bool(written.takes and asked.takes) and written.takes is not asked.takes,
        "--finish": written.finish != asked.finish,
        "--setup": written.setup != asked.setup,
        "--argument": dict(written.arguments) != dict(asked.arguments),
        "--returns": dict(written.returns) != dict(asked.returns),
    }
    return next((option for option, is_other in differ.items() if is_other), "")


def _proof_of_more(command: BoxCommand, item: VerificationItem, own: Sequence[Check]) -> Proof | None:
    """What is to say where the command asks more than the runs; None where it does not."""
    if others := [name for name in command.probes if name != item.probe]:
        return Proof(ProofState.NOT_MEASURED, f"its command asks {', '.join(others)}, too")
    asked = {check.question.target.call for check in own}
    if own[0].question.probe.scope == "target":
        if command.targets:
            return None
        reason = f"its command asks every target that it finds, and the run only {', '.join(sorted(asked))}"
        return Proof(ProofState.NOT_MEASURED, reason)
    if names_in(item.text) & asked:
        return None
    modules = {target.call.partition(":")[0] for target in command.targets}
    named = [name for name in own[0].fix.elsewhere if not modules or name.partition(":")[0] in modules]
    left = sorted({name for name in named if name not in asked})
    if not left:
        return None
    return Proof(
        ProofState.STILL_REPRODUCED,
        f"its command asks about the {'module' if modules else 'checkout'}, and names {', '.join(left)}",
    )
