"""What the device probes say of each specimen: values, messages, lines, and what they leave alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from auditkit.model.runs.run import ProbeResult
from auditkit.probing.engine.catalog import load_catalog, load_module
from tests.probes.in_process import run_here
from tests.probes.specimens import SPECIMEN, target_of
from tests.probing_helpers import (
    CAPTURE,
    MIXED_DTYPES,
    OFF_DEVICE,
    TARGETS,
    TWO_DEVICES,
    values,
)


def specimen(kind: str, function: str, probe: str) -> ProbeResult:
    return run_here(SPECIMEN, target_of(kind, f"devices:{function}"), [probe]).results[0]


def small(module: str, function: str, probe: str) -> ProbeResult:
    return run_here(TARGETS / "devices", f"{module}:{function}", [probe]).results[0]


def test_gradients_left_out_are_reported_with_both_numbers() -> None:
    result = specimen("defective", "local_norm", TWO_DEVICES)
    assert (result.outcome.value, result.severity and result.severity.value) == ("reproduced", "P3")
    expected = "gradients on cpu and cuda:0 (alternating, cpu first): norm is 32.9848 instead of 73.7564"
    assert result.message == expected
    assert result.location is not None
    assert result.location.function == "_norms"  # the first operator that sees other gradients
    # Magnitudes 1 and 4 of 1, 2, 4, 8, 64 elements each: sqrt(64 * 17) of sqrt(64 * 85).
    assert max(values(result, "relative_difference")) == pytest.approx(1 - (17 / 85) ** 0.5)


def test_a_refusal_of_torchs_own_is_unclear_and_a_value_error_with_the_devices_is_clear() -> None:
    unclear = specimen("defective", "smoothed_layer_norms", TWO_DEVICES)
    assert (unclear.outcome.value, unclear.severity and unclear.severity.value) == ("reproduced", "P4")
    assert "found at least two devices, cpu and cuda:0" in unclear.message
    clear = specimen("sound", "one_device_norm", TWO_DEVICES)
    assert clear.outcome.value == "not_reproduced"
    assert clear.message == "refuses clearly: ValueError: gradients lie on several devices: cpu, cuda:0"


def test_a_dropped_dtype_is_reported_with_both_numbers() -> None:
    result = specimen("defective", "main_dtype_norm", MIXED_DTYPES)
    assert (result.outcome.value, result.severity and result.severity.value) == ("reproduced", "P2")
    assert "norm is 8 instead of 73.7564, the answer in float32" in result.message
    assert specimen("sound", "smoothed_layer_norms", MIXED_DTYPES).outcome.value == "not_reproduced"


def test_bytes_that_leave_the_device_are_counted_and_the_hosts_work_is_named() -> None:
    result = specimen("defective", "host_norms", OFF_DEVICE)
    assert result.outcome.value == "reproduced"
    # Two numbers of 8 bytes are the answer.
    assert values(result, "off_device_bytes", gradient_bytes=1_048_576) == [1_048_576 - 16]
    assert values(result, "off_device_bytes_per_gradient_byte") == [1.0]
    assert result.message.endswith("the host then runs _foreach_norm on 65,536 elements at once")


@pytest.mark.parametrize("function", ["norm_as_tensor", "largest_values", "saved_copies", "block_norms"])
def test_a_collector_that_reads_its_answer_or_a_fixed_sample_stays_on_its_device(function: str) -> None:
    assert small("sound", function, OFF_DEVICE).outcome.value == "not_reproduced"


def _judged(*rows: tuple[str, Any, dict[str, Any]]) -> dict[str, Any]:
    probe = load_catalog()[CAPTURE]
    measured = [SimpleNamespace(name=name, value=value, case=case) for name, value, case in rows]
    return load_module(probe).judge(measured, probe.policy)


def test_a_capture_is_judged_from_stored_measurements() -> None:
    """It cannot be captured, it says something else when replayed, and it is right: three verdicts."""
    error = "AcceleratorError: operation not permitted when stream is capturing"
    failed = _judged(("captured", False, {"error": error}))
    assert failed == {"outcome": "reproduced", "message": f"the collecting step cannot be captured: {error}"}
    case = {"field": "grad_norm", "replayed": "1.0", "ordinary": "3.0"}
    stale = _judged(("captured", True, {}), ("unequal_fields", 1, case))
    assert (stale["outcome"], stale["breaks"]) == ("reproduced", "wrong_answer")
    assert "grad_norm = 1.0 where a call says 3.0" in stale["message"]
    right = _judged(("captured", True, {}), ("unequal_fields", 0, {}))
    assert right["outcome"] == "not_reproduced"
