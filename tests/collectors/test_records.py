"""Records hold measures without loss."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.collectors.records import (
    NARROW_SHIFTS,
    WIDE_SHIFTS,
    GradientMeasure,
    combine_measures,
    decode_record,
    encode_record,
)

counts = st.integers(0, 2**40)
measures = st.builds(GradientMeasure, st.floats(0.0, allow_infinity=True), st.just(2**50), counts, counts)


@given(st.lists(measures, min_size=1, max_size=5))
def test_a_record_holds_its_measures(expected: list[GradientMeasure]) -> None:
    """Encoding and decoding changes nothing; counts are exact far above 2**24."""
    assert decode_record(encode_record(expected), NARROW_SHIFTS) == expected


@pytest.mark.parametrize("exponent", [-1074, -1022, -600, -480, -100, 0, 119, 121, 500, 600, 1023])
def test_the_three_scaled_norms_cover_float64(exponent: int) -> None:
    """Whatever the scale, one of the norms of x * 2**shift is a normal number, and it is chosen."""
    norm = 2.0**exponent
    rows = [1.0, 1.0, 1.0]
    for shift in WIDE_SHIFTS:  # what a float64 sum of squares makes of the norm at this shift
        power = exponent + shift
        rows.append(math.inf if power >= 512 else 0.0 if power < -537 else 2.0**power)
    assert decode_record(rows, WIDE_SHIFTS)[0].finite_norm == norm


def test_parts_combine() -> None:
    """Counts add; norms add in squares, whatever their scale."""
    parts = [GradientMeasure(3e300, 1, 0, 2), GradientMeasure(4e300, 5, 1, 0)]
    assert combine_measures(parts) == GradientMeasure(5e300, 6, 1, 2)
