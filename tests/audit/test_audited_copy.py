"""An audit leaves the checkout as it was, whatever the audited code writes, and says what that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit
from auditkit.model.enums import DeviceChoice, Outcome
from auditkit.probing.run.run_options import RunOptions
from tests.filing_helpers import put

pytestmark = pytest.mark.process

TRAINER = """import json
import torch

steps = json.load(open("config.json"))["steps"]
model = torch.nn.Linear(2, 2)


def grad_norm(parameters):
    return sum(p.grad.norm().item() ** 2 for p in parameters if p.grad is not None) ** 0.5


for step in range(steps):
    with open("train.log", "a") as log:
        log.write(f"{step}\\n")
"""


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    """A folder with a script that writes a log when it is imported."""
    put(tmp_path, "trainer/train.py", TRAINER)
    put(tmp_path, "trainer/config.json", '{"steps": 2}')
    return tmp_path / "trainer"


def audited(trainer: Path, in_place: bool) -> tuple[str, ...]:
    """The notes of a run that found and asked the script's function."""
    options = RunOptions(device=DeviceChoice.CPU, in_place=in_place)
    request = AuditRequest(str(trainer), (options,), probes=("norm_overflows_on_finite_grads",))
    run = audit(request)
    assert [(one.target, one.outcome) for one in run.results] == [("train:grad_norm", Outcome.REPRODUCED)]
    return run.notes


def test_nothing_is_written_into_the_checkout(trainer: Path) -> None:
    notes = audited(trainer, in_place=False)
    assert {path.name for path in trainer.iterdir()} == {"train.py", "config.json"}
    assert notes == ("the audited code wrote train.log into the copy that was audited, which is gone",)


def test_in_place_the_code_writes_where_it_lies(trainer: Path) -> None:
    """The control, and the only way in which that happens: somebody asked for it."""
    notes = audited(trainer, in_place=True)
    assert (trainer / "train.log").read_text().count("\n") == 2 * 2  # the trial and the probe import it once each
    assert notes[-1] == "the audited code wrote train.log into the checkout"
