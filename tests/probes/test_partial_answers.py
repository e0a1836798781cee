"""What a target does not take is said, and neither counted as a defect nor passed over in silence."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Outcome, Reason
from auditkit.model.runs.target import Target
from tests.probes.in_process import Answer, ask_all
from tests.probing_helpers import MEMORY, OVERFLOW, TARGETS, UNDERFLOW, by_probe, run_probes

pytestmark = pytest.mark.process

PARTIAL = TARGETS / "partial"


def asked(probe: str, function: str) -> Answer:
    return ask_all(f"norms:{function}", [probe], PARTIAL)[probe]


@pytest.mark.parametrize("probe", [OVERFLOW, UNDERFLOW, MEMORY])
def test_a_refused_dtype_is_noted_and_not_called_a_broken_norm(probe: str) -> None:
    """float32 is judged and sound; the others are named as not judged, with what the target said."""
    answer = asked(probe, "float32_only")
    assert answer.outcome == "not_reproduced"
    assert {row.case.get("dtype", "float32") for row in answer.rows} == {"float32"}
    assert "bfloat16 gradients were not judged: TypeError: only float32 gradients" in answer.notes


def test_memory_outside_the_allocator_is_named_with_the_size_it_was_measured_at() -> None:
    """The message states NumPy's figure at 10M parameters."""
    answer = asked(MEMORY, "numpy_copy")
    (python,) = answer.values("python_peak_per_gradient_byte")
    where = "in NumPy and Python memory at the peak, 10,000,000 parameters in 10 tensors"
    assert (answer.outcome, answer.message) == ("reproduced", f"{python:.3g}x the gradients' bytes {where}")
    assert python > 2.0


def test_what_only_narrow_gradients_cost_is_found_and_said_so() -> None:
    """Converting float32 to float32 is free: 4 bytes for each 2 are bfloat16's alone."""
    answer = asked(MEMORY, "float_copies")
    told = "2x the gradients' bytes at the peak, 20,000,000 bfloat16 parameters in 100 tensors"
    assert (answer.outcome, answer.message[: len(told)]) == ("reproduced", told)
    line = (PARTIAL / "norms.py").read_text(encoding="utf-8").splitlines()[(answer.line or 0) - 1]
    assert line.strip() == "copies = [grad.float() for grad in _grads(parameters)]"


def test_a_role_that_does_not_exist_is_refused() -> None:
    """A typo in `returns` is an error with the nearest role, not a guess in its place."""
    run = run_probes(PARTIAL, Target("norms:float32_only", returns={"nrom": ""}), [OVERFLOW])
    result = by_probe(run)[OVERFLOW]
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.CANNOT_READ)
    assert "no role is called 'nrom'; there are: norm" in result.message
