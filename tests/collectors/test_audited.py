"""Our own collectors, audited by our own probes, as a user's collectors are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from auditkit.model.enums import Contract, DeviceChoice, Outcome, Takes
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.probing.engine.runner import run_target
from auditkit.probing.engine.sandbox import Setting
from tests.probes.specimens import PROBES
from tests.probing_helpers import (
    ACCURACY,
    CAPTURE,
    GROUPING,
    SYNCS,
)

pytestmark = pytest.mark.acceptance

# 25 s a target behind the simulated device's tensors; the values are the CPU's.
DEAR_WHEN_SIMULATED = (GROUPING, ACCURACY)
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "auditkit.collectors"
COLLECTORS = (
    Target(f"{PACKAGE}:compute_total_norm", contract=Contract.GRAD_NORM, takes=Takes.PARAMETERS),
    Target(
        f"{PACKAGE}:collect_gradients",
        contract=Contract.GRAD_STATS,
        takes=Takes.PARAMETERS,
        finish=f"{PACKAGE}:PendingGradientStats.materialize",
    ),
    Target(
        f"{PACKAGE}:collect_dual_gradients",
        contract=Contract.DUAL_STATS,
        takes=Takes.PARAMETERS,
        finish=f"{PACKAGE}:PendingDualGradientStats.materialize",
    ),
    Target(
        f"{PACKAGE}:GradientIsolationMonitor.check_isolation",
        contract=Contract.MONITOR,
        takes=Takes.MODULE,
        setup="register",
    ),
    Target(
        f"{PACKAGE}:clip_gradients",
        contract=Contract.GRAD_NORM,
        takes=Takes.PARAMETERS,
        arguments={"max_norm": 1.0},
    ),
)


def _setting(device: DeviceChoice, sizes: list[int]) -> Setting:
    return Setting(ROOT, sys.executable, (ROOT,), device, options={"memory_sizes": sizes})


# All probes take 20 s of processor time for each collector: in the default run only for the one with the most answers.
_IN_THE_DEFAULT_RUN = (f"{PACKAGE}:collect_gradients", DeviceChoice.AUTO)


@pytest.mark.parametrize(
    ("target", "device"),
    [
        pytest.param(
            target,
            device,
            marks=[] if (target.call, device) == _IN_THE_DEFAULT_RUN else pytest.mark.slow,
            id=f"{target.call.partition(':')[2]}-{device}",
        )
        for target in COLLECTORS
        for device in (DeviceChoice.AUTO, DeviceChoice.SIMULATED)
    ],
)
def test_no_probe_reproduces_on_our_own_collectors(target: Target, device: DeviceChoice):
    """The CPU path and the device path answer every probe, and none reproduces.

    The device path keeps a constant 4 MB, more than a quarter of the gradients below 4M parameters:
    hence 20M, where a share of them would show.
    """
    left_out = DEAR_WHEN_SIMULATED if device is DeviceChoice.SIMULATED else ()
    outcomes = _outcomes(target, [probe for probe in PROBES if probe not in left_out], device)
    assert outcomes.pop(CAPTURE)[0] is Outcome.UNAVAILABLE
    answered = (Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE)
    assert {probe: said for probe, said in outcomes.items() if said[0] not in answered} == {}
    assert sum(outcome is Outcome.NOT_REPRODUCED for outcome, _ in outcomes.values()) >= 15


def _outcomes(target: Target, probes: Sequence[str], device: DeviceChoice) -> dict[str, tuple[Outcome, str]]:
    run = run_target(target, select(load_catalog(), list(probes)), _setting(device, [4_000_000, 20_000_000]))
    return {result.probe: (result.outcome, result.message) for result in run.results}


@pytest.mark.slow
def test_our_own_tickets_folder_is_empty_because_the_audit_finds_nothing_above_p4(tmp_path: Path):
    """The audit of `auditkit/collectors` files no ticket; that of a copy with one defective collector files one."""
    command = ["audit", "--tickets", str(tmp_path / "tickets"), "--fix-time=0", "--fail-on", "P3", "--json"]
    own = _document(command, ROOT / "auditkit" / "collectors")
    assert {one["severity"] for one in own["results"] if one["outcome"] == "reproduced"} <= {"P4"}
    assert own["summary"]["not_reproduced"] >= 90
    assert own["summary"]["error"] == 0
    assert list((tmp_path / "tickets").glob("*.md")) == []
    planted = tmp_path / "planted"
    shutil.copytree(ROOT / "auditkit" / "collectors", planted / "collectors")
    planted.joinpath("collectors", "planted.py").write_text(
        "def looped_norm(grads):\n    return sum(grad.norm().item() ** 2 for grad in grads) ** 0.5\n"
    )
    words = [*command, "--probe", SYNCS, "--target", "collectors.planted:looped_norm"]
    found = _document([*words, "--takes", "gradients"], planted, exit_code=1)
    assert [one["outcome"] for one in found["results"]] == ["reproduced"]
    assert [path.name for path in (tmp_path / "tickets").glob("*.md")] == ["B1-PT-01.md"]


def _document(command: Sequence[str], checkout: Path, exit_code: int = 0) -> dict[str, Any]:
    words = [sys.executable, "-P", "-m", "auditkit", command[0], str(checkout), *command[1:]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == exit_code, done.stderr
    return dict(json.loads(done.stdout))
