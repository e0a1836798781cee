"""Targets found in a checkout and targets that auditkit.yaml names: what is run, and what is said of the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit, exit_code
from auditkit.config.config import Config, read_config
from auditkit.errors import ExitCode, NothingMeasuredError
from auditkit.model.enums import DeviceChoice, Outcome
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkout.checkout import open_checkout
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.run.found_candidates import configured_lines
from auditkit.probing.run.found_targets import FoundTargets, find_targets
from auditkit.probing.run.run_options import RunOptions
from tests.filing_helpers import put
from tests.probing_helpers import OVERFLOW

pytestmark = pytest.mark.process

WATCHING = Path(__file__).resolve().parents[1] / "targets" / "watching"


@pytest.fixture(scope="module")
def found() -> FoundTargets:
    with open_checkout(WATCHING, sys.executable) as opened:
        return find_targets(opened, Setting(WATCHING, sys.executable, (WATCHING,)))


def test_a_checkout_without_collectors_is_an_error_with_a_hint(tmp_path: Path):
    """Nothing found is never an empty success."""
    (tmp_path / "plain.py").write_text("def add(a, b):\n    return a + b\n", encoding="utf-8")
    with open_checkout(tmp_path, sys.executable) as opened:
        found = find_targets(opened, Setting(tmp_path, sys.executable, (tmp_path,)))
    assert isinstance(found.failure, NothingMeasuredError)
    assert found.failure.message == "no gradient collector was found in 1 Python file"
    assert found.failure.hint is not None
    assert f"auditkit probe run sync_in_loop --checkout {tmp_path}; " in found.failure.hint
    assert found.asked == ()


def test_missing_modules_are_named_once_for_the_whole_checkout(tmp_path: Path):
    """With what to install; and a reason that several collectors share stands once."""
    norm = "def {}(parameters):\n    return torch.stack([{}.norm(p.grad) for p in parameters]).norm()\n"
    of_one = norm.format("grad_norm", "einops_missing") + norm.format("total_norm", "einops_missing")
    (tmp_path / "one.py").write_text("import torch, einops_missing, cv2_missing\n" + of_one, encoding="utf-8")
    two = "import torch, yaml_missing\n" + norm.format("norm_of", "yaml_missing")
    (tmp_path / "two.py").write_text(two, encoding="utf-8")
    with open_checkout(tmp_path, sys.executable) as opened:
        found = find_targets(opened, Setting(tmp_path, sys.executable, (tmp_path,)))
    assert isinstance(found.failure, NothingMeasuredError)
    first, needed, *stopped = found.failure.message.splitlines()
    names = "einops_missing yaml_missing"
    assert first == "no gradient collector could be fed:"
    assert needed == f"  this checkout needs: {names.replace(' ', ', ')} ({sys.executable} -m pip install {names})"
    names = "one:grad_norm, one:total_norm, two:norm_of"
    assert stopped == [f"  3 not checked, they use modules that are not installed: {names}"]
    assert found.failure.hint == (
        "install what is missing, or name the interpreter that has it: --python VENV/bin/python"
    )


KNOWN = """
import torch

def known(parameters):
    return torch.stack([p.grad.double().norm() for p in parameters]).norm()
"""
NEW = """
import torch

def fresh(parameters):
    return torch.stack([(p.grad ** 2).sum() for p in parameters]).sum().sqrt()
"""


def audited(folder: Path, config: Config) -> Run:
    (folder / "known.py").write_text(KNOWN)
    (folder / "fresh.py").write_text(NEW)
    arms = (RunOptions(python=sys.executable, config=config),)
    return audit(AuditRequest(str(folder), arms=arms, probes=(OVERFLOW,)))


def outcomes(run: Run) -> dict[str, Outcome]:
    return {result.target: result.outcome for result in run.results}


def test_a_new_file_is_run_beside_the_configured_targets(tmp_path: Path) -> None:
    """A defect in a file that auditkit.yaml does not mention is a finding, and the exit code says so."""
    run = audited(tmp_path, Config(targets=(Target("known:known", name="known"),)))
    assert outcomes(run) == {"known:known": Outcome.NOT_REPRODUCED, "fresh:fresh": Outcome.REPRODUCED}
    assert exit_code(run) is ExitCode.FINDINGS
    assert {each.target.call: each.found for each in run.targets} == {"known:known": False, "fresh:fresh": True}
    assert [each.call for each in run.candidates] == ["fresh:fresh"]


def test_discovery_that_is_switched_off_says_so(tmp_path: Path) -> None:
    """With `discover: false` only the configured targets run, and the first lines of the report say it."""
    file = tmp_path / "auditkit.yaml"
    file.write_text("discover: false\ntargets:\n  - call: known:known\n")
    run = audited(tmp_path, read_config(file))
    assert outcomes(run) == {"known:known": Outcome.NOT_REPRODUCED}
    assert run.discovery_off
    assert Run.from_json(run.to_json()).discovery_off
    (line,) = configured_lines(run)
    assert "discover: false" in line
    assert "1 target " in line


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


def audited_notes(trainer: Path, in_place: bool) -> tuple[str, ...]:
    """The notes of a run that found and asked the script's function."""
    options = RunOptions(device=DeviceChoice.CPU, in_place=in_place)
    request = AuditRequest(str(trainer), (options,), probes=("norm_overflows_on_finite_grads",))
    run = audit(request)
    assert [(one.target, one.outcome) for one in run.results] == [("train:grad_norm", Outcome.REPRODUCED)]
    return run.notes


def test_nothing_is_written_into_the_checkout(trainer: Path) -> None:
    notes = audited_notes(trainer, in_place=False)
    assert {path.name for path in trainer.iterdir()} == {"train.py", "config.json"}
    assert notes == ("the audited code wrote train.log into the copy that was audited, which is gone",)


def test_in_place_the_code_writes_where_it_lies(trainer: Path) -> None:
    """The control, and the only way in which that happens: somebody asked for it."""
    notes = audited_notes(trainer, in_place=True)
    assert (trainer / "train.log").read_text().startswith("0\n1\n")
    assert notes[-1] == "the audited code wrote train.log into the checkout"
