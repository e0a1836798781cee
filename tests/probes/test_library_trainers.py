"""Trainers of libraries, and classes of a checkout that change a part of one: found by reading, and driven."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from auditkit.model.enums import Contract
from auditkit.model.runs.target import Target
from auditkit.probing.discovery.search import discover
from tests.probes.in_process import ask_all
from tests.probing_helpers import ACCUMULATION, LIMIT_MISSED, STEPS, TARGETS

FOLDER = TARGETS / "trainers"


@pytest.fixture(autouse=True)
def _imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("transformers", "accelerate", "lightning", "mine"):
            del sys.modules[name]


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
        ("transformers.trainer:Trainer.train", None, None),
        ("mine:SumTrainer.train", None, None),
        ("mine:MeanTrainer.train", ACCUMULATION, 23),
        ("accelerate:Accelerator.backward", ACCUMULATION, 22),
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
