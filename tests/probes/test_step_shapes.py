"""Training steps in the shapes that strangers write: each is fed, and only what is wrong in it is told."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Contract
from auditkit.model.runs.target import Target
from auditkit.worker.base.refusals import CannotFeedError
from tests.probes.in_process import ask_all
from tests.probing_helpers import (
    ACCUMULATION,
    FROZEN,
    LIMIT_MISSED,
    LOST,
    MISSES,
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
    "train_with_closure": set(),
    "train_inside_backward": set(),
    "train_by_halves": set(),
    "train_more_later": set(),
    "train_with_hooks": set(),
    "train_stepping_twice": {LOST},
    "train_a_copy": {MISSES},
    "train_twice_held": {MISSES},
    "train_unscaled_twice": {SCALED_CLIP},
    "MixedTrainer.train_batch": {SCALED_CLIP},
    "train_keeping_nan": {LOST},
    "train_until_nan": set(),
    "clip_before_backward": {LIMIT_MISSED},
    "clip_by_value": set(),
    "clip_the_head": {LIMIT_MISSED},
    "unfreeze": {FROZEN},
    "LateTrainer.train_epoch": set(),
    "Recipe.train": set(),
    "MeanRecipe.train": {ACCUMULATION},
    "train_on_pixels": set(),
    "train_taking_labels": set(),
    "OptionalScaler.train_batch": {SCALED_CLIP},
    "train_scaled_by_one": {SCALED_CLIP},
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


@pytest.mark.parametrize(
    ("function", "why"), [("train_by_closure", "by a closure"), ("train_inside_backward", "inside of backward")]
)
def test_steps_within_steps_are_not_judged(function: str, why: str) -> None:
    answers = ask_all(target(function), [LOST, MISSES], FOLDER)
    assert {answer.outcome for answer in answers.values()} == {"not_applicable"}
    assert all(why in answer.message for answer in answers.values())


def test_a_closure_that_is_called_once_is_a_step_like_any() -> None:
    answer = ask_all(target("train_with_closure"), [LIMIT_MISSED], FOLDER)[LIMIT_MISSED]
    assert (answer.outcome, len(answer.values("reached"))) == ("not_reproduced", 2)


def test_a_loop_that_needs_a_gpu_says_so() -> None:
    with pytest.raises(CannotFeedError, match="CUDA"):
        ask_all(target("train_on_a_stream"), STEPS, FOLDER)


@pytest.mark.process
def test_a_loop_that_forks_is_answered() -> None:
    answers = ask_all(target("train_beside_a_child"), [LIMIT_MISSED, LOST], FOLDER)
    assert {answer.outcome for answer in answers.values()} == {"not_reproduced"}


def test_a_loop_that_makes_no_step_says_what_happened() -> None:
    with pytest.raises(CannotFeedError, match=r"no optimizer of torch's makes a step \(4 batches were taken\)"):
        ask_all(target("swallow"), STEPS, FOLDER)
