"""On a machine with a GPU: the probes of devices and CUDA graphs tell their specimens from the sound ones."""

from __future__ import annotations

import pytest

from auditkit.model.enums import DeviceChoice
from tests.probes.specimens import SPECIMEN, target_of
from tests.probing_helpers import CAPTURE, OFF_DEVICE, TWO_DEVICES, by_probe, run_probes

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("call", "probe", "outcome"),
    [
        ("defective_devices:local_norm", TWO_DEVICES, "reproduced"),
        ("defective_devices:host_norms", OFF_DEVICE, "reproduced"),
        ("defective:collect_health_async", CAPTURE, "reproduced"),
        ("sound_devices:all_devices_norm", TWO_DEVICES, "not_reproduced"),
        ("sound_devices:one_device_norm", TWO_DEVICES, "not_reproduced"),
        ("sound_devices:all_devices_norm", OFF_DEVICE, "not_reproduced"),
        ("sound_devices:collect_norms_async", CAPTURE, "not_reproduced"),
        ("sound_devices:all_devices_norm", CAPTURE, "not_applicable"),
    ],
)
def test_a_probe_answers_on_the_device(call: str, probe: str, outcome: str):
    run = run_probes(SPECIMEN, target_of(f"gradmon.{call}"), [probe], device=DeviceChoice.CUDA)
    result = by_probe(run)[probe]
    assert (result.device, result.outcome.value) == ("cuda", outcome), result.message
