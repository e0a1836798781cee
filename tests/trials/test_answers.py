"""What a change costs a target that it was not made for: only what the target had right before."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Outcome
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import ProbeResult, TargetReading
from auditkit.model.runs.target import Target
from auditkit.trials.answers import ANSWERS, Answers, costs

HEALTHY, MIXED = "nonfinite_grads_look_healthy", "fails_on_mixed_dtypes"
ROLES = {"norm": "norm", "nan_count": "nans"}
CASE = {"family": "special values", "dtype": "float32", "planted": "2 nans"}
GONE, STILL = Outcome.NOT_REPRODUCED, Outcome.REPRODUCED


def answer(probe: str, outcome: Outcome, *recorded: Measurement) -> ProbeResult:
    return ProbeResult(probe, 1, "watch:collect", outcome, "", f"{probe}/1/watch:collect", measurements=recorded)


def recorded(norm: float, nans: int) -> ProbeResult:
    """What the target answers to gradients of which two elements are NaN."""
    fields = {"norm": norm, "nans": nans}
    known = [Measurement("exact_norm", float("nan"), "norm", CASE), Measurement("allowed_difference", 1e-5, "", CASE)]
    said = [Measurement("answer", value, "value", {**CASE, "field": name}) for name, value in fields.items()]
    return answer(ANSWERS, GONE, *known, *said)


def answers(norm: float, nans: int, healthy: Outcome, mixed: Outcome = GONE, lost: tuple[str, ...] = ()) -> Answers:
    target = Target("watch:collect")
    results = [answer(HEALTHY, healthy), answer(MIXED, mixed), recorded(norm, nans)]
    kept = {role: field for role, field in ROLES.items() if role not in lost}
    return Answers.given(results, target, TargetReading(target, kept))


BASE = answers(2.0, 2, STILL)
NAN = float("nan")


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        (answers(2.0, 2, STILL), []),
        (answers(NAN, 2, GONE), []),  # a norm that hid them was not right: what mends it may change it
        (answers(2.0, 0, GONE), ["correct results differ, such as nans of"]),
        (answers(2.0, 2, STILL, STILL), ["fails_on_mixed_dtypes began to reproduce"]),
        (answers(2.0, 2, STILL, lost=("nan_count",)), ["it no longer returns nan_count"]),
    ],
    ids=["nothing", "what was wrong", "a right answer", "a finding", "a field"],
)
def test_the_costs_of_a_change(arm: Answers, said: list[str]) -> None:
    found = costs(BASE, arm)
    assert len(found) == len(said)
    assert all(words in told for words, told in zip(said, found, strict=True))
