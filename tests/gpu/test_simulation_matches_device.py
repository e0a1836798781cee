"""On a machine with a GPU: what simulation counts is what the device does, on every bundled collector."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.config.config import read_config
from auditkit.model.enums import DeviceChoice, Outcome
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.probing.engine.runner import run_target
from auditkit.probing.engine.sandbox import Setting

pytestmark = pytest.mark.gpu

SPECIMEN = Path(__file__).resolve().parents[2] / "probes" / "specimens" / "gradient_monitoring"
TARGETS = read_config(SPECIMEN / "auditkit.yaml").targets


def _results(target: Target, device: DeviceChoice, probe: str) -> ProbeResult:
    setting = Setting(SPECIMEN, sys.executable, (SPECIMEN,), device, options={"memory_sizes": [4_000_000, 40_000_000]})
    result = run_target(target, select(load_catalog(), [probe]), setting).results[0]
    assert result.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE), result.message
    return result


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("probe", ["syncs_grow_with_tensors", "async_collect_synchronizes"])
def test_simulated_and_measured_syncs_agree(target: Target, probe: str):
    """The same outcome, the same law and the same counts."""
    measured = _results(target, DeviceChoice.CUDA, probe)
    simulated = _results(target, DeviceChoice.SIMULATED, probe)
    assert (measured.outcome, measured.law) == (simulated.outcome, simulated.law)
    assert [m.value for m in measured.measurements] == [m.value for m in simulated.measurements]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_simulated_and_measured_launches_have_the_same_outcome(target: Target):
    """An operator may launch several kernels, so the laws differ; whether they grow does not."""
    probe = "launches_grow_with_tensors"
    measured = _results(target, DeviceChoice.CUDA, probe)
    assert measured.outcome == _results(target, DeviceChoice.SIMULATED, probe).outcome


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(
    "probe", ["norm_overflows_on_finite_grads", "norm_underflows_to_zero", "nonfinite_grads_look_healthy"]
)
def test_numerics_on_the_device_have_the_cpus_outcome(target: Target, probe: str):
    """What breaks on the CPU breaks on the device, for collectors that take one path on both."""
    assert _results(target, DeviceChoice.CUDA, probe).outcome == _results(target, DeviceChoice.CPU, probe).outcome
