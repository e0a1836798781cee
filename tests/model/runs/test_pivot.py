"""Measurements as tables of two values of their cases."""

from __future__ import annotations

import math

from auditkit.model.enums import Evidence
from auditkit.model.runs.measurement import Measurement, pivots


def boundary(value: float | None, **case: object) -> Measurement:
    return Measurement("breaking_norm", value, "norm", {**case, "device": "cpu"})


def test_dtype_stands_at_the_side_and_elements_along_the_top() -> None:
    """Whatever else tells the cases apart too (tensors); a case that was not taken is a dash, not a value."""
    (pivot,) = pivots(
        [
            boundary(1.84e19, tensors=4, elements=4096, dtype="float32"),
            boundary(None, tensors=1, elements=1 << 20, dtype="float32"),
            boundary(math.inf, tensors=4, elements=4096, dtype="mixed"),
        ]
    )
    assert (pivot.name, pivot.side, pivot.top) == ("breaking_norm", "dtype", "elements")
    assert pivot.columns == ("4,096", "1,048,576")
    assert pivot.rows == (("float32", ("1.84e+19", "none")), ("mixed", ("inf", "-")))


def test_a_fitted_value_is_not_shown_as_a_measured_one() -> None:
    """Values from a fit carry the word."""
    measured = Measurement("peak", 8, "bytes", {"params": 2, "tensors": 1})
    fitted = Measurement("peak", 16, "bytes", {"params": 4, "tensors": 2}, Evidence.EXTRAPOLATED)
    (pivot,) = pivots([measured, fitted])
    assert pivot.rows == (("2", ("8 B", "-")), ("4", ("-", "16 B extrapolated")))


def test_a_sentence_heads_no_column() -> None:
    """What was raised is part of a case, and no column of a table; a short word in its place is."""

    def tables(raised: str) -> int:
        return len(pivots([boundary(1.0, layout="sliced", how=raised), boundary(1.0, layout="whole", how="read")]))

    assert tables("RuntimeError: view size is not compatible") == 0
    assert tables("raised") == 1
