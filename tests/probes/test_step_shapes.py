"""Training steps in the shapes that strangers write: each is fed, and only what is wrong in it is told."""
# ruff: noqa: F403, F405 - the names of probes

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.enums import Contract, Outcome
from auditkit.model.runs.target import Target
from auditkit.worker.base.refusals import CannotFeedError
from tests.probes.in_process import ask_all
from tests.probing_helpers import *

FOLDER = TARGETS / "steps"
REPRODUCED: dict[str, set[str]] = {
    "train_for_cuda": set(),
    "train_one_batch": set(),
    "train_by_iterator": set(),
    "train_with_its_own_groups": set(),
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
    "LossScaler.__call__": set(),
    "HastyScaler.__call__": {SCALED_CLIP},
    "clip_with_a_scaler_alone": {LIMIT_MISSED},
}


def target(function: str) -> Target:
    return Target(f"loops:{function}", contract=Contract.TRAIN_STEP)


@pytest.mark.parametrize(
    "function",
    [pytest.param(name, marks=() if red else pytest.mark.acceptance) for name, red in REPRODUCED.items()],
)
def test_a_loop_is_fed_and_only_its_defect_is_told(function: str) -> None:
    answers = ask_all(target(function), STEPS, FOLDER)
    assert {probe for probe, answer in answers.items() if answer.outcome == "reproduced"} == REPRODUCED[function]
    assert "error" not in {answer.outcome for answer in answers.values()}


@pytest.mark.parametrize(
    ("function", "why"), [("train_by_closure", "by a closure"), ("train_inside_backward", "inside of backward")]
)
def test_steps_within_steps_are_not_judged(function: str, why: str) -> None:
    answers = ask_all(target(function), [LOST, MISSES], FOLDER)
    assert {answer.outcome for answer in answers.values()} == {"not_applicable"}
    assert all(why in answer.message for answer in answers.values())


def test_a_loop_that_needs_a_gpu_says_so() -> None:
    with pytest.raises(CannotFeedError, match="CUDA"):
        ask_all(target("train_on_a_stream"), STEPS, FOLDER)


@pytest.mark.process
def test_a_loop_that_forks_is_answered() -> None:
    answers = ask_all(target("train_beside_a_child"), [LIMIT_MISSED, LOST], FOLDER)
    assert {answer.outcome for answer in answers.values()} == {"not_reproduced"}


def test_a_loop_that_makes_no_step_says_what_happened() -> None:
    with pytest.raises(CannotFeedError, match=r"no torch optimizer made a step \(4 batches were read\)"):
        ask_all(target("swallow"), STEPS, FOLDER)


SCRIPT = """\
import torch
from torch.nn.utils import clip_grad_norm_

grad_clip, accumulation_steps = 1.0, 8
model = torch.load("model.pt")
optimizer = torch.optim.AdamW(model.parameters())
x, y = get_batch("train")
while True:
    for micro_step in range(accumulation_steps):
        logits, loss = model(x, y)
        x, y = get_batch("train")
        (loss / accumulation_steps).backward()
    clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.acceptance
def test_the_loop_of_a_script_is_asked_where_it_stands(tmp_path: Path) -> None:
    """A sound one is silent; with one statement moved each defect is red, at the script's own line."""
    probes = [ACCUMULATION, LIMIT_MISSED, LOST]
    late = SCRIPT.replace("    clip_grad_norm_", "    optimizer.step()\n    clip_grad_norm_").replace(
        "grad_clip)\n    optimizer.step()", "grad_clip)"
    )
    undivided = SCRIPT.replace("(loss / accumulation_steps)", "loss")
    found = {}
    for name, text in {"sound": SCRIPT, "late": late, "undivided": undivided}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        target = Target(f"{name}.py:#training_step", contract=Contract.TRAIN_STEP)
        results = run_probes(tmp_path, target, probes).results
        assert {each.outcome for each in results} <= {Outcome.REPRODUCED, Outcome.NOT_REPRODUCED}
        found[name] = {
            each.probe: text.split("\n")[each.location.line - 1].strip()
            for each in results
            if each.outcome is Outcome.REPRODUCED and each.location is not None
        }
    assert found == {
        "sound": {},
        "late": {LIMIT_MISSED: "clip_grad_norm_(model.parameters(), grad_clip)"},
        "undivided": {ACCUMULATION: "loss.backward()"},
    }


def test_which_parameters_two_optimizers_have_is_not_made_up(tmp_path: Path) -> None:
    """Two of the same parameters would step twice on one gradient, and be told as stale."""
    (tmp_path / "two_optimizers.py").write_text(
        "def train(model, criterion, loader, host_optimizer, seed_optimizer):\n"
        "    for x, y in loader:\n"
        "        host_optimizer.zero_grad()\n        seed_optimizer.zero_grad()\n"
        "        criterion(model(x), y).backward()\n"
        "        host_optimizer.step()\n        seed_optimizer.step()\n",
        encoding="utf-8",
    )
    with pytest.raises(CannotFeedError, match="several optimizers"):
        ask_all(Target("two_optimizers:train", contract=Contract.TRAIN_STEP), [LOST], tmp_path)
