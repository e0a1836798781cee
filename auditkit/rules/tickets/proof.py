"""What two runs of a probe prove: a fix only where the probe was seen to reproduce before, and does no longer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from auditkit.model.enums import Outcome
from auditkit.model.tickets.claim import Condition
from auditkit.rules.tickets.claims import Reading, check_condition


class ProofState(StrEnum):
    """What was shown of one verification item."""

    PROVEN = "PROVEN"
    STILL_REPRODUCED = "STILL_REPRODUCED"
    VACUOUS = "VACUOUS"
    NOT_MEASURED = "NOT_MEASURED"
    UNBOUND = "UNBOUND"


WORST_FIRST = (ProofState.STILL_REPRODUCED, ProofState.NOT_MEASURED, ProofState.VACUOUS, ProofState.PROVEN)
"""Which of several states an item has that asks several questions."""


@dataclass(frozen=True)
class Sighting:
    """What one run of a probe said of one target, and what it measured."""

    outcome: Outcome
    message: str
    reading: Reading = field(default_factory=Reading)

    @property
    def is_answer(self) -> bool:
        return self.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)


@dataclass(frozen=True)
class Proof:
    """A state and why, in words."""

    state: ProofState
    reason: str


def prove(base: Sighting | None, fix: Sighting, condition: Condition | None = None, no_base: str = "") -> Proof:
    """What the run at the fix proves beside that at the base; `no_base` says why there is none.

    Without a condition the probe has to reproduce at the base and not at the fix; with one, the condition has to
    fail at the base and hold at the fix. What passes on the broken code is vacuous, and what a run could not
    say is not measured, whatever the other one says.
    """
    if not fix.is_answer:
        return Proof(ProofState.NOT_MEASURED, f"{_words(fix.outcome)} at the fix: {fix.message}")
    if condition is not None:
        return _prove_condition(base, fix, condition, no_base)
    if fix.outcome is Outcome.REPRODUCED:
        return Proof(ProofState.STILL_REPRODUCED, fix.message)
    if base is None:
        return Proof(ProofState.NOT_MEASURED, no_base)
    if not base.is_answer:
        return Proof(ProofState.NOT_MEASURED, f"{_words(base.outcome)} at the base: {base.message}")
    if base.outcome is Outcome.NOT_REPRODUCED:
        return Proof(ProofState.VACUOUS, f"it does not reproduce at the base either: {base.message}")
    return Proof(ProofState.PROVEN, f"at the base {base.message}; at the fix {fix.message}")


def worst(proofs: Iterable[Proof]) -> Proof:
    """The proof that counts of an item that asks several questions."""
    return min(proofs, key=lambda proof: WORST_FIRST.index(proof.state))


def _prove_condition(base: Sighting | None, fix: Sighting, condition: Condition, no_base: str) -> Proof:
    at_fix = check_condition(condition, fix.reading)
    if at_fix.is_true is False:
        return Proof(ProofState.STILL_REPRODUCED, f"does not hold at the fix: {at_fix.message}")
    if base is None and at_fix.is_true and fix.outcome is Outcome.REPRODUCED:
        return Proof(ProofState.VACUOUS, f"holds where the probe reproduces: {at_fix.message}")
    if base is None:
        return Proof(ProofState.NOT_MEASURED, no_base)
    if not base.is_answer:
        return Proof(ProofState.NOT_MEASURED, f"{_words(base.outcome)} at the base: {base.message}")
    at_base = check_condition(condition, base.reading)
    if at_base.is_true:
        return Proof(ProofState.VACUOUS, f"holds at the base, too: {at_base.message}")
    for where, holds in (("fix", at_fix), ("base", at_base)):
        if holds.is_true is None:
            return Proof(ProofState.NOT_MEASURED, f"at the {where}: {holds.message}")
    return Proof(ProofState.PROVEN, f"at the base {at_base.message}; at the fix {at_fix.message}")


def _words(outcome: Outcome) -> str:
    return outcome.value.replace("_", " ")
