"""Training steps whose backward pass or optimizer's step is in a helper: found where the loss is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.enums import Contract, Outcome
from auditkit.model.runs.target import Target
from auditkit.probing.find.search import discover
from tests.probing_helpers import LOST, TARGETS, run_probes

METHODS = """
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def __call__(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            {loss}

    def _optimize(self, loss):
        loss.backward()
        self._update()

    def _update(self):
        self.optimizer.step()

    def fit(self, loader):
        self(loader)
"""


def steps(folder: Path) -> set[str]:
    found = discover(folder).candidates
    return {each.call for each in found if each.contract_guess is Contract.TRAIN_STEP}


def test_helpers_of_a_module_and_of_a_class_are_followed() -> None:
    assert {"everyday:train_by_helpers", "everyday:LoggedTrainer.train_epoch", "everyday:train_graphs"} <= steps(
        TARGETS / "step_corpus"
    )


@pytest.mark.parametrize("loss", ["self._optimize(self.model(x, y))", "self.model(x, y).backward(); self._update()"])
def test_the_step_is_the_method_that_computes_the_loss(loss: str, tmp_path: Path) -> None:
    """A helper that is handed the loss cannot be fed, and a method that only calls the step is none itself."""
    (tmp_path / "trainer.py").write_text(METHODS.format(loss=loss), encoding="utf-8")
    found = steps(tmp_path)
    assert "trainer:Trainer.__call__" in found
    assert not {"trainer:Trainer.fit", "trainer:Trainer._update"} & found
    assert ("trainer:Trainer._optimize" in found) == ("_optimize" not in loss)


SCRIPT = """
import torch
from net import Net

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.load("data.pt"))


def update(optimizer):
    optimizer.zero_grad()
    optimizer.step()


for x, y in loader:
    torch.nn.functional.cross_entropy(model(x), y).backward()
    update(optimizer)
"""


@pytest.mark.process
def test_the_loop_of_a_script_that_steps_in_a_helper_is_found_and_run(tmp_path: Path) -> None:
    """Its helper zeroes what the loop has computed: nothing is ever learned."""
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    assert steps(tmp_path) == {"train.py:#training_step"}
    (result,) = run_probes(tmp_path, Target("train.py:#training_step", contract=Contract.TRAIN_STEP), [LOST]).results
    assert result.outcome is Outcome.REPRODUCED
    assert result.message.endswith("none of 3 steps gets any")
