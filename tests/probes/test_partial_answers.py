"""What a target does not take is said, and neither counted as a defect nor passed over in silence."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Outcome, Reason
from auditkit.model.runs.target import Target
from tests.probes.in_process import run_here
from tests.probing_helpers import HEALTH, MEMORY, OVERFLOW, TARGETS, UNDERFLOW, by_probe, run_probes, values

pytestmark = pytest.mark.process

PARTIAL = TARGETS / "partial"


@pytest.mark.parametrize("probe", [OVERFLOW, UNDERFLOW, MEMORY])
def test_a_refused_dtype_is_noted_and_not_called_a_broken_norm(probe: str):
    """float32 is judged and sound; the others are named as not judged, with what the target said."""
    result = run_here(PARTIAL, "norms:float32_only", [probe]).results[0]
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert {m.case.get("dtype", "float32") for m in result.measurements} == {"float32"}
    assert "bfloat16 gradients were not judged: TypeError: only float32 gradients" in result.notes


def test_a_norm_that_turns_nan_for_tiny_gradients_is_found():
    """NaN compares false with everything; the probe must not be fooled by that."""
    result = run_here(PARTIAL, "norms:nan_when_tiny", [UNDERFLOW]).results[0]
    assert result.outcome is Outcome.REPRODUCED
    assert values(result, "vanishing_magnitude", dtype="float32") == [2.0**-73]


def test_memory_outside_the_allocator_is_named_with_the_size_it_was_measured_at():
    """The message states NumPy's figure at 10M parameters, not at the allocator's largest size."""
    result = by_probe(
        run_probes(PARTIAL, "norms:numpy_copy", [MEMORY], options={"memory_sizes": [1_000_000, 20_000_000]})
    )
    (python,) = values(result[MEMORY], "python_peak_per_gradient_byte")
    assert result[MEMORY].outcome is Outcome.REPRODUCED
    where = "in NumPy and Python memory at the peak, 10,000,000 parameters in 10 tensors"
    assert result[MEMORY].message == f"{python:.3g}x the gradients' bytes {where}"
    assert python > 2.0


def test_what_only_narrow_gradients_cost_is_found_and_said_so():
    """Converting float32 to float32 is free: 4 bytes for each 2 are bfloat16's alone."""
    (memory,) = run_here(PARTIAL, "norms:float_copies", [MEMORY]).results
    assert memory.outcome is Outcome.REPRODUCED
    assert memory.message.startswith(
        "2x the gradients' bytes at the peak, 20,000,000 bfloat16 parameters in 100 tensors"
    )
    assert memory.location is not None
    line = (PARTIAL / "norms.py").read_text(encoding="utf-8").splitlines()[memory.location.line - 1]
    assert line.strip() == "copies = [grad.float() for grad in _grads(parameters)]"


def test_a_role_that_does_not_exist_is_refused():
    """A typo in `returns` is an error with the nearest role, not a guess in its place."""
    run = run_probes(PARTIAL, Target("norms:float32_only", returns={"nrom": ""}), [OVERFLOW])
    result = by_probe(run)[OVERFLOW]
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.CANNOT_READ)
    assert "no role is called 'nrom'; there are: norm" in result.message


@pytest.mark.parametrize(
    ("function", "outcome"),
    [
        ("minus_one_when_nonfinite", "not_reproduced"),
        ("whole_minus_one_when_nonfinite", "not_reproduced"),
        ("one_when_nonfinite", "reproduced"),
        ("clip_factor", "not_applicable"),
    ],
)
def test_a_norm_that_cannot_be_says_that_the_gradients_are_not_finite(function: str, outcome: str):
    """-1 is a code that a reader notices; 1 is a norm like any other. A factor by which is clipped tells nothing."""
    assert run_here(PARTIAL, f"norms:{function}", [HEALTH]).results[0].outcome == outcome
