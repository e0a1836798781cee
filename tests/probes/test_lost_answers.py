"""A target that catches its own exceptions and answers nothing for some gradients fails the probe that gives them."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Outcome
from tests.probes.in_process import run_here
from tests.probing_helpers import (
    GENERATOR,
    LAUNCHES,
    MISSING,
    MIXED_DTYPES,
    NO_ELEMENTS,
    NONCONTIGUOUS,
    SPARSE,
    TARGETS,
    TWO_DEVICES,
)

PARTIAL = TARGETS / "partial"
NOTHING = "the answer is empty"
LOST = {
    "none_for_sparse": (SPARSE, f"sparse gradients: {NOTHING}"),
    "empty_for_mixed_dtypes": (MIXED_DTYPES, "the count of its numbers is 0 instead of 2, the answer in float32"),
    "text_for_two_devices": (TWO_DEVICES, "the count of its numbers is 0 instead of 2"),
    "none_without_elements": (NO_ELEMENTS, NOTHING),
    "half_without_elements": (NO_ELEMENTS, "the answer lacks mean"),
    "none_for_strides": (NONCONTIGUOUS, "mean missing instead of "),
    "none_for_missing": (MISSING, "change mean from "),
    "empty_for_a_generator": (GENERATOR, "mean missing for a generator"),
}


@pytest.mark.parametrize("function", LOST)
def test_no_answer_is_a_failure_that_says_so(function: str) -> None:
    """The control answers always, with the same numbers."""
    probe, told = LOST[function]
    (found,) = run_here(PARTIAL, f"empties:{function}", [probe]).results
    assert (found.outcome, told in found.message) == (Outcome.REPRODUCED, True), found.message
    (control,) = run_here(PARTIAL, "empties:always", [probe]).results
    assert control.outcome is Outcome.NOT_REPRODUCED


def test_a_dtype_without_an_answer_is_not_counted() -> None:
    (result,) = run_here(PARTIAL, "empties:none_for_bfloat16", [LAUNCHES]).results
    told = "bfloat16 gradients were not judged: its answer does not follow bfloat16 gradients of two dimensions"
    assert told in result.notes
