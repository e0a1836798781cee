"""Training steps whose backward pass or optimizer's step is in a helper: found where the loss is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.enums import Contract, Outcome
from auditkit.model.runs.target import Target
from auditkit.probing.find.search import discover
from tests.probing_helpers import ACCUMULATION, LOST, TARGETS, run_probes

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
    assert {"everyday:train_by_helpers", "everyday:LoggedTrainer.train_epoch"} <= steps(TARGETS / "step_corpus")


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


ONE_PASS = """
import torch
from data import batches
from net import EMA, Net


def main(args):
    model = Net()
    ema = EMA(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for index, (x, y) in enumerate(batches(args.steps * args.accumulate)):
        loss = model(x, y) / {divisor}
        loss.backward()
        if (index + 1) % args.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            ema.update(model)
"""


@pytest.mark.process
@pytest.mark.parametrize(("divisor", "outcome"), [("args.accumulate", "not_reproduced"), ("1", "reproduced")])
def test_batches_of_a_function_of_the_checkout_are_ours(divisor: str, outcome: str, tmp_path: Path) -> None:
    """The model returns the loss; `ema` is used untested; without epochs no group is incomplete."""
    (tmp_path / "train.py").write_text(ONE_PASS.format(divisor=divisor), encoding="utf-8")
    (tmp_path / "data.py").write_text("def batches(count):\n    raise OSError('no data')\n", encoding="utf-8")
    target = Target("train.py:main#training_step", contract=Contract.TRAIN_STEP)
    found = {each.probe: each.outcome.value for each in run_probes(tmp_path, target, [ACCUMULATION, LOST]).results}
    assert found == {ACCUMULATION: outcome, LOST: "not_reproduced"}
