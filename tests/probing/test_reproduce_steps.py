"""The script of a training step prints its defect in plain torch; for a sound step there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.assets import bundled_dir
from auditkit.model.enums import Contract, Outcome
from auditkit.model.runs.run import Environment, ProbeResult, TargetReading
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.reproduce import NoReproduction, Reproduction, reproduction
from auditkit.probing.reproduce_steps import MOST_LINES
from auditkit.probing.run.measurement import Progress, Questions, measure
from auditkit.worker.feed import guesses
from auditkit.worker.steps import roles
from tests.sharing import one_of

pytestmark = pytest.mark.process
FOLDER = bundled_dir("probes") / "specimens" / "training_steps"
SETTING = Setting(FOLDER, sys.executable, (FOLDER,))
PARTS = {"model": guesses.MODULE, "optimizer": guesses.OPTIMIZER, "batches": roles.BATCHES}
ACCUMULATES, LIMIT = {"accumulation_steps": roles.ACCUMULATION}, {"max_norm": roles.LIMIT}
# Of each defective step: its probe, what it takes beside PARTS, and what its script prints last.
STEPS = {
    "train_on_sums": (
        "accumulation_differs_from_full_batch",
        ACCUMULATES,
        "three batches of 3, norm at the step: [tensor(",
    ),
    "train_in_half": (
        "clip_on_scaled_gradients",
        LIMIT | {"scaler": guesses.SCALER},
        "limit 0.01 norms: [",
    ),
    "train_without_zeroing": ("gradients_lost_or_stale", {}, "the same batch three times, norm at each step: ["),
    "train_past_nan": ("nonfinite_step_is_applied", {}, "parameters that are NaN: 1"),
    "train_and_log": ("step_waits_for_the_device", ACCUMULATES, "12 batches, device values read: 12"),
    "train_weights": ("optimizer_misses_parameters", {}, "parameters with a gradient that did not move: ['bias']"),
}


def planned(probe: str, call: str, taken: dict[str, str]) -> tuple[ProbeResult, TargetReading]:
    """A finding about a step, and the plan that the worker would have made."""
    step = {"task": "samples", "form": "tuple", "returns": "scores", "is_made": False}
    plan = {"filled": taken, "step": {**step, "accumulates": "option" if "accumulation_steps" in taken else ""}}
    reading = TargetReading(Target(call, contract=Contract.TRAIN_STEP), rung="package", plan=plan)
    return ProbeResult(probe, 1, call, Outcome.REPRODUCED, message="", fingerprint=""), reading


def made(probe: str, call: str, taken: dict[str, str], setting: Setting = SETTING) -> Reproduction | NoReproduction:
    """Write and run the script of a finding."""
    return reproduction(*planned(probe, call, taken), setting)


@pytest.mark.acceptance
@pytest.mark.parametrize("name", one_of(2, STEPS))
def test_a_script_prints_the_defect_of_a_step(name: str) -> None:
    probe, further, printed = STEPS[name]
    parts = {key: value for key, value in PARTS.items() if (name, key) != ("train_weights", "optimizer")}
    found = made(probe, f"trainsteps.defective:{name}", parts | further)
    assert isinstance(found, Reproduction), found
    assert found.output.split("\n")[-1].startswith(printed), found.output
    lines = found.script.split("\n")
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 100
    assert "auditkit" not in found.script


def test_what_nobody_can_build_is_named() -> None:
    unknown = made("gradients_lost_or_stale", "trainsteps.sound:train_past_nan", PARTS | {"optimizer": guesses.LOSS})
    assert unknown == NoReproduction(
        "The step needs optimizer: a loss that no parameter reaches, which only its program builds."
    )


@pytest.mark.acceptance
def test_a_script_sets_what_the_main_block_sets_and_mocks_what_is_not_installed(tmp_path: Path) -> None:
    """The script shows the defect all the same."""
    step = "from absent_here.meters import Meter\n\n\ndef train(model, optimizer, batches):\n    meter = Meter()\n"
    loop = "    for x, y in batches:\n        torch.nn.functional.cross_entropy(model(x), y).backward()\n"
    loop += "        logger.info(f'{meter.avg:.2f}')\n        optimizer.step()\n"
    file = tmp_path / "steps.py"
    file.write_text(f"import torch\n{step}{loop}")
    setting = Setting(tmp_path, sys.executable, (tmp_path,))
    found = made("gradients_lost_or_stale", "steps:train", PARTS, setting)
    assert isinstance(found, Reproduction), found
    assert 'absent = "absent_here".split()  # not installed here' in found.script
    assert 'train.__globals__["logger"] = unittest.mock.MagicMock()' in found.script


def test_the_plan_of_a_measured_step_gives_a_script() -> None:
    target = Target("trainsteps.defective:train_and_clip", contract=Contract.TRAIN_STEP)
    probes = select(load_catalog(), ["clip_misses_the_step"])
    run = measure(Questions([target], probes, Environment("", "", False, "", "", "", "")), SETTING, Progress())
    found = reproduction(run.results[0], run.targets[0], SETTING)
    assert isinstance(found, Reproduction), found
    first, last = found.output.split("\n")
    assert first.partition("norms: ")[2] == last.partition("norms: ")[2] != ""
