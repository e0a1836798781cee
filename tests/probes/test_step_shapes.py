"""Training steps in the shapes that strangers write: each is fed, and only what is wrong in it is told."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Contract
from auditkit.model.runs.target import Target
from auditkit.probing.worker.base.refusals import CannotFeedError
from tests.probes.in_process import ask_all
from tests.probing_helpers import (
    ACCUMULATION,
    FROZEN,
    LIMIT_MISSED,
    LOST,
    MISSES,
    NAN_STEP,
    SCALED_CLIP,
    STEPS,
    TARGETS,
)

FOLDER = TARGETS / "steps"
REPRODUCED: dict[str, set[str]] = {
    "train_for_cuda": set(),
    "train_one_batch": set(),
    "train_by_iterator": set(),
    "train_on_values": set(),
    "train_every_fourth": set(),
    "train_every_fourth_undivided": {ACCUMULATION},
    "train_yielding": set(),
    "train_without_end": set(),
    "train_by_closure": set(),
    "train_a_copy": {MISSES},
    "train_twice_held": {MISSES},
    "train_unscaled_twice": {SCALED_CLIP},
    "train_keeping_nan": {LOST},
    "train_until_nan": set(),
    "clip_before_backward": {LIMIT_MISSED},
    "clip_by_value": set(),
    "clip_the_head": {LIMIT_MISSED},
    "unfreeze": {FROZEN},
    "LateTrainer.train_epoch": set(),
}


@pytest.fixture(autouse=True)
def _imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def target(function: str) -> Target:
    return Target(f"loops:{function}", contract=Contract.TRAIN_STEP)


@pytest.mark.parametrize("function", REPRODUCED)
def test_a_loop_is_fed_and_only_its_defect_is_told(function: str) -> None:
    answers = ask_all(target(function), STEPS, FOLDER)
    assert {probe for probe, answer in answers.items() if answer.outcome == "reproduced"} == REPRODUCED[function]
    assert "error" not in {answer.outcome for answer in answers.values()}


def test_a_clip_and_a_limit_in_the_code_are_held_against_larger_gradients() -> None:
    answer = ask_all(target("train_one_batch"), [LIMIT_MISSED], FOLDER)[LIMIT_MISSED]
    assert answer.values("limit") == [1.0, 1.0]
    assert min(answer.values("unclipped")) > 2.0
    assert answer.values("reached") == [pytest.approx(1.0, abs=1e-4)] * 2


def test_what_goes_backward_in_a_closure_is_not_judged() -> None:
    answers = ask_all(target("train_by_closure"), [ACCUMULATION, LOST, NAN_STEP], FOLDER)
    assert {answer.outcome for answer in answers.values()} == {"not_applicable"}


def test_a_loop_that_makes_no_step_says_what_happened() -> None:
    with pytest.raises(CannotFeedError, match=r"no optimizer of torch's makes a step \(4 batches were taken\)"):
        ask_all(target("swallow"), STEPS, FOLDER)
