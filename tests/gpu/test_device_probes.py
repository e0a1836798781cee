"""On a machine with a GPU: the probes of devices and CUDA graphs tell their specimens from the sound ones."""

from __future__ import annotations

import pytest

from auditkit.model.enums import DeviceChoice
from tests.probes.specimens import SPECIMEN, target_of
from tests.probing_helpers import CAPTURE, OFF_DEVICE, TWO_DEVICES, by_probe, run_probes

pytestmark = pytest.mark.gpu


def result_of(kind: str, function: str, probe: str):
    run = run_probes(SPECIMEN, target_of(kind, function), [probe], device=DeviceChoice.CUDA)
    return by_probe(run)[probe]


@pytest.mark.parametrize(
    ("kind", "function", "probe", "outcome"),
    [
        ("defective", "devices:local_norm", TWO_DEVICES, "reproduced"),
        ("defective", "devices:host_norms", OFF_DEVICE, "reproduced"),
        ("defective", "collect_health_async", CAPTURE, "reproduced"),
        ("sound", "devices:all_devices_norm", TWO_DEVICES, "not_reproduced"),
        ("sound", "devices:one_device_norm", TWO_DEVICES, "not_reproduced"),
        ("sound", "devices:all_devices_norm", OFF_DEVICE, "not_reproduced"),
        ("sound", "devices:collect_norms_async", CAPTURE, "not_reproduced"),
        ("sound", "devices:all_devices_norm", CAPTURE, "not_applicable"),
    ],
)
def test_a_probe_answers_on_the_device(kind: str, function: str, probe: str, outcome: str):
    result = result_of(kind, function, probe)
    assert (result.device, result.outcome.value) == ("cuda", outcome), result.message
