"""One job over several interpreters and devices: labels, the answer over all arms, and one ticket for each finding."""

from __future__ import annotations

import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit, exit_code
from auditkit.audit.matrix import combine, label_arms
from auditkit.errors import ExitCode
from auditkit.model.enums import DeviceChoice, Outcome, Severity
from auditkit.model.runs.run import Environment, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.run.run_options import RunOptions
from tests.second_interpreter import make_interpreter

pytestmark = pytest.mark.process

OVERFLOW = "norm_overflows_on_finite_grads"
AUTO, CPU, SIMULATED = DeviceChoice.AUTO, DeviceChoice.CPU, DeviceChoice.SIMULATED

# The same source in both arms; what differs between releases of torch is told by the interpreter's folder here.
COLLECTORS = """
import sys

import torch


def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
    if "older" in sys.prefix:
        return sum((g * g).sum() for g in grads).sqrt().item()
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()


if "newer" in sys.prefix:

    def added_later(parameters):
        norms = [p.grad.norm() for p in parameters if p.grad is not None]
        return torch.stack(norms).norm().item() if norms else 0.0
"""
NORM = Target("stats:grad_norm")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout, two interpreters with torch, and one without."""
    folder = tmp_path_factory.mktemp("matrix")
    (folder / "checkout").mkdir()
    (folder / "checkout" / "stats.py").write_text(COLLECTORS, encoding="utf-8")
    make_interpreter(folder / "older")
    make_interpreter(folder / "newer")
    venv.create(folder / "bare", with_pip=False, symlinks=True)
    return folder


def arm(place: Path, name: str, device: DeviceChoice = CPU) -> RunOptions:
    return RunOptions(python=str(place / name / "bin" / "python"), device=device)


def request(place: Path, names: Sequence[str], **more: object) -> AuditRequest:
    options = {"targets": (NORM,), "probes": (OVERFLOW,), "arms": tuple(arm(place, name) for name in names)} | more
    return AuditRequest(str(place / "checkout"), **options)  # type: ignore[arg-type]


def environment(torch: str, python: str = "3.11.7", interpreter: str = "/a/bin/python") -> Environment:
    return Environment("here", "", False, python, torch, "cpu", "CPU", interpreter)


@pytest.mark.parametrize(
    ("environments", "devices", "labels"),
    [
        (
            [environment("2.9.1"), environment("2.9.1")],
            [CPU, SIMULATED],
            ("torch 2.9.1 on cpu", "torch 2.9.1 on simulated"),
        ),
        (
            [environment("2.9.1"), environment("2.9.1", "3.12.1"), environment("2.15.0")],
            [AUTO, AUTO, AUTO],
            ("torch 2.9.1, Python 3.11.7", "torch 2.9.1, Python 3.12.1", "torch 2.15.0, Python 3.11.7"),
        ),
    ],
)
def test_arms_are_named_by_what_tells_them_apart(
    environments: list[Environment], devices: list[DeviceChoice], labels: tuple[str, ...]
) -> None:
    """torch's version alone where that is enough; never two arms of one name."""
    assert label_arms(environments, devices) == labels


def _run(outcome: Outcome, severity: Severity | None = None, loaded: bool = True, torch: str = "2.9.1") -> Run:
    result = ProbeResult("p", 1, "m:f", outcome, f"said by {torch}", "p/1/m:f", severity=severity, loaded=loaded)
    return Run("id", environment(torch), (result,))


FOUND, SOUND = _run(Outcome.REPRODUCED, Severity.P2), _run(Outcome.NOT_REPRODUCED, torch="2.15.0")
BROKEN, UNLOADED = _run(Outcome.ERROR, torch="2.10.0"), _run(Outcome.ERROR, loaded=False, torch="")
MISSING = _run(Outcome.UNAVAILABLE, torch="2.11.0")


@pytest.mark.parametrize(
    ("runs", "outcome", "arm", "code"),
    [
        ((SOUND, FOUND), Outcome.REPRODUCED, "torch 2.9.1", ExitCode.FINDINGS),
        ((UNLOADED, FOUND), Outcome.REPRODUCED, "torch 2.9.1", ExitCode.FINDINGS),
        ((UNLOADED, SOUND), Outcome.ERROR, "/a/bin/python", ExitCode.TARGET_NOT_LOADED),
        ((SOUND, BROKEN), Outcome.ERROR, "torch 2.10.0", ExitCode.NOTHING_MEASURED),
        ((SOUND, MISSING), Outcome.UNAVAILABLE, "torch 2.11.0", ExitCode.NOTHING_MEASURED),
        ((SOUND, SOUND), Outcome.NOT_REPRODUCED, "torch 2.15.0", ExitCode.OK),
    ],
)
def test_what_counts_over_all_arms(runs: tuple[Run, ...], outcome: Outcome, arm: str, code: ExitCode) -> None:
    """A finding in any arm is one; an arm with an error or without an answer never passes."""
    combined = combine(runs, [AUTO] * len(runs))
    (result,) = combined.results
    assert (result.outcome, result.arm, exit_code(combined)) == (outcome, arm, code)
    assert [entry.outcome for entry in result.arms] == [run.results[0].outcome for run in runs]
    assert combined.environment == runs[0].environment


def test_a_target_found_in_one_interpreter_is_asked_of_all(place: Path) -> None:
    """The source is read once; what only one interpreter can feed is an error in the other, never a silence."""
    run = audit(request(place, ["older", "newer"], targets=()))
    assert [result.target for result in run.results] == ["stats:grad_norm", "stats:added_later"]
    older, newer = (each.run.results for each in run.matrix)
    assert [result.outcome.value for result in older] == ["reproduced", "error"]
    assert [result.outcome.value for result in newer] == ["not_reproduced", "reproduced"]
    assert "has no 'added_later'" in older[1].message
    assert [reading.target.call for reading in run.targets] == ["stats:grad_norm", "stats:added_later"]
