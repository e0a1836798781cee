"""Red first: what two runs prove, and what a careless reader of the second one would have taken for a proof."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Outcome
from auditkit.model.runs.measurement import Measured
from auditkit.model.tickets.claim import parse_condition
from auditkit.rules.tickets.claims import Reading
from auditkit.rules.tickets.proof import Proof, ProofState, Sighting, prove, worst

PROVEN, STILL, VACUOUS, NOT = (
    ProofState.PROVEN, ProofState.STILL_REPRODUCED, ProofState.VACUOUS, ProofState.NOT_MEASURED,
)  # fmt: skip
BEYOND = parse_condition("boundary > 1e30 or none")
REACHED = parse_condition("boundary > 1e10")


def sighting(outcome: str, boundary: str = "none") -> Sighting:
    return Sighting(
        Outcome(outcome), f"says {outcome}", Reading([Measured.from_cells("boundary", boundary, "", "", "")])
    )


BROKEN, SOUND = sighting("reproduced", "1.845e+19"), sighting("not_reproduced")
DEAD = [sighting(outcome) for outcome in ("error", "unavailable", "not_applicable")]


@pytest.mark.parametrize(
    ("base", "fix", "state"),
    [
        (BROKEN, SOUND, PROVEN),
        (BROKEN, BROKEN, STILL),
        (SOUND, BROKEN, STILL),
        (SOUND, SOUND, VACUOUS),
        (None, SOUND, NOT),
        (None, BROKEN, STILL),
        *((base, SOUND, NOT) for base in DEAD),
        *((BROKEN, fix, NOT) for fix in DEAD),
    ],
)
def test_only_red_then_green_is_a_proof(base: Sighting | None, fix: Sighting, state: ProofState) -> None:
    proof = prove(base, fix, no_base="there is none")
    assert proof.state is state
    assert proof.reason


@pytest.mark.parametrize(
    ("condition", "base", "fix", "state"),
    [
        (BEYOND, BROKEN, SOUND, PROVEN),
        (BEYOND, BROKEN, BROKEN, STILL),
        # Seed 003's item: "test with artificially large gradients (1e10 scale)" passes on the broken code.
        (REACHED, BROKEN, sighting("not_reproduced", "1e+150"), VACUOUS),
        (REACHED, None, BROKEN, VACUOUS),
        (REACHED, None, sighting("not_reproduced", "1e+150"), NOT),
        (REACHED, BROKEN, SOUND, VACUOUS),  # the fix has no boundary at all: the check proves nothing all the same
        (REACHED, SOUND, SOUND, NOT),
        (BEYOND, SOUND, BROKEN, STILL),
        (REACHED, SOUND, sighting("not_reproduced", "1e+150"), NOT),
        *((BEYOND, BROKEN, fix, NOT) for fix in DEAD),
        *((BEYOND, base, SOUND, NOT) for base in DEAD),
    ],
)
def test_a_condition_has_to_fail_first(condition: object, base: Sighting, fix: Sighting, state: ProofState) -> None:
    assert prove(base, fix, condition, "there is none").state is state  # type: ignore[arg-type]


def test_the_careless_rule_takes_a_vacuous_check_for_a_proof() -> None:
    """The known-bad control: 'it passes now' is what the two cases have in common."""

    def careless(fix: Sighting) -> ProofState:
        return PROVEN if fix.outcome is Outcome.NOT_REPRODUCED else STILL

    assert (careless(SOUND), prove(SOUND, SOUND).state) == (PROVEN, VACUOUS)
    assert (careless(SOUND), prove(BROKEN, SOUND).state) == (PROVEN, PROVEN)


def test_of_several_questions_the_worst_answer_counts() -> None:
    states = [VACUOUS, PROVEN, NOT, STILL]
    assert [worst([Proof(state, "") for state in states[: count + 1]]).state for count in range(4)] == [
        VACUOUS, VACUOUS, NOT, STILL,
    ]  # fmt: skip
