"""Trainers of libraries, and classes of a checkout that change a part of one: found by reading, and driven."""

from __future__ import annotations

import sys
import types

import pytest

from auditkit.model.enums import Contract
from auditkit.model.runs.target import Target
from auditkit.probing.find.search import discover
from auditkit.worker.base.refusals import CannotFeedError
from tests.probes.in_process import ask_all
from tests.probing_helpers import ACCUMULATION, LIMIT_MISSED, LOST, MISSES, STEPS, TARGETS, WAITS

FOLDER = TARGETS / "trainers"


def test_a_trainer_is_found_where_it_is_or_changes_a_part_of_a_step() -> None:
    found = [each for each in discover(FOLDER).candidates if each.contract_guess is Contract.TRAIN_STEP]
    assert len(found) == len({each.call for each in found})
    assert {(each.call, each.line) for each in found} == {
        ("transformers.trainer:Trainer.train", 15),
        ("accelerate:Accelerator.backward", 21),
        ("lightning.pytorch.trainer.trainer:Trainer.fit", 10),
        ("mine:MeanTrainer.train", 11),
        ("mine:SumTrainer.train", 26),
    }


@pytest.mark.parametrize(
    ("call", "reproduced", "line"),
    [
        pytest.param("transformers.trainer:Trainer.train", None, None, marks=pytest.mark.acceptance),
        pytest.param("mine:SumTrainer.train", None, None, marks=pytest.mark.acceptance),
        ("mine:MeanTrainer.train", ACCUMULATION, 23),
        pytest.param("accelerate:Accelerator.backward", ACCUMULATION, 22, marks=pytest.mark.acceptance),
        ("lightning.pytorch.trainer.trainer:Trainer.fit", LIMIT_MISSED, 23),
    ],
)
def test_a_trainer_is_driven_with_our_model_and_only_its_defect_is_told(
    call: str, reproduced: str | None, line: int | None
) -> None:
    answers = ask_all(Target(call, contract=Contract.TRAIN_STEP), STEPS, FOLDER)
    found = {probe: answer for probe, answer in answers.items() if answer.outcome == "reproduced"}
    assert set(found) == ({reproduced} if reproduced else set())
    assert {answer.outcome for answer in answers.values()} <= {"reproduced", "not_reproduced", "not_applicable"}
    if reproduced:
        assert found[reproduced].line == line


MODULES = TARGETS / "modules"
OF_MODULES: dict[str, tuple[str, str] | None] = {
    "Sound": None,
    "ManualSound": None,
    "TwoOptimizers": None,
    "Tokens": None,
    "Sum": None,
    "HeadForgotten": (MISSES, "return torch.optim.Adam(list("),
    "Manual": (LOST, "opt.step()"),
    "ClipsNothing": (LIMIT_MISSED, "def training_step"),
    "Reads": (WAITS, "self.last = loss.item()"),
}


@pytest.fixture
def _no_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The empty base that stands in where Lightning is absent."""
    absent = types.ModuleType("pytorch_lightning")
    vars(absent)["LightningModule"] = type("LightningModule", (), {"__module__": "pytorch_lightning"})
    monkeypatch.setitem(sys.modules, "pytorch_lightning", absent)


def test_a_module_is_found_by_its_training_step() -> None:
    found = {each.call for each in discover(MODULES).candidates if each.contract_guess is Contract.TRAIN_STEP}
    assert found == {f"lit:{name}.training_step" for name in OF_MODULES}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "ClipsNothing" else pytest.mark.acceptance) for name in OF_MODULES],
)
@pytest.mark.usefixtures("_no_lightning")
def test_a_module_is_trained_without_lightning_and_only_its_defect_is_told(name: str) -> None:
    answers = ask_all(Target(f"lit:{name}.training_step", contract=Contract.TRAIN_STEP), STEPS, MODULES)
    red = {probe: answer for probe, answer in answers.items() if answer.outcome == "reproduced"}
    wanted = OF_MODULES[name]
    assert set(red) == ({wanted[0]} if wanted else set())
    assert {answer.outcome for answer in answers.values()} <= {"reproduced", "not_reproduced", "not_applicable"}
    if wanted:
        line = red[wanted[0]].line
        assert line is not None
        assert wanted[1] in (MODULES / "lit.py").read_text().splitlines()[line - 1]


@pytest.mark.usefixtures("_no_lightning")
def test_a_large_module_is_refused_with_its_size() -> None:
    with pytest.raises(CannotFeedError, match="its own model has 4,002,000 parameters"):
        ask_all(Target("lit:TooLarge.training_step", contract=Contract.TRAIN_STEP), STEPS, MODULES)
