"""What is kept of one gradient, and its form as float64 numbers in one buffer.

Legend: T gradients, S shifts, K = 3 + S rows, M = K * T numbers of one record.

A record holds K rows of T float64 numbers, row after row:

    row 0       elements that are not zero (NaN and Inf included)
    row 1       the same without NaN
    row 2       the same without NaN and Inf
    row 3..     norm of the finite elements times 2**shift, one row per shift

Counts are exact: every integer below 2**53 is a float64, and no tensor has that many elements.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

COUNT_ROWS = 3

# A sum of squares of float64 leaves its normal range for norms outside about 2**-511..2**512. Three norms,
# of x * 2**-600, x and x * 2**600, cover every float64: the first is accurate for norms above 2**120, the
# second down to 2**-480, the third from 2**-1074 to 2**-480. Scaling by a power of two is exact.
# After Blue, "A portable Fortran program to find the Euclidean norm of a vector", ACM TOMS 4(1), 1978.
WIDE_SHIFTS = (-600, 0, 600)
# Squares of every narrower type, subnormals included (2**-149 for float32), are normal in float64.
NARROW_SHIFTS = (0,)

# Below this a scaled norm may have lost elements whose squares underflowed: each loses at most 2**-1075, so a
# norm at or above 2**-480 is off by at most n * 2**-115 relative, for n elements.
SMALLEST_ACCURATE_NORM = 2.0**-480


def shifts_for(dtype: torch.dtype) -> tuple[int, ...]:
    """Return the shifts that keep sums of squares of `dtype` accurate in float64."""
    return WIDE_SHIFTS if dtype == torch.float64 else NARROW_SHIFTS


class GradientMeasure(NamedTuple):
    """Norm of the finite elements of one gradient, and counts of its elements."""

    finite_norm: float
    nonzero_count: int  # NaN and Inf are not zero
    nan_count: int
    inf_count: int

    @property
    def norm(self) -> float:
        """The norm as IEEE 754 arithmetic has it: NaN with any NaN, else inf with any Inf."""
        if self.nan_count:
            return math.nan
        return math.inf if self.inf_count else self.finite_norm


def combine_measures(measures: Sequence[GradientMeasure]) -> GradientMeasure:
    """Return the measure of a gradient of which `measures` are the disjoint parts.

    math.hypot scales by itself and rounds once: it overflows only where the norm is not a float64.
    """
    if len(measures) == 1:
        return measures[0]
    return GradientMeasure(
        math.hypot(*[measure.finite_norm for measure in measures]),
        sum(measure.nonzero_count for measure in measures),
        sum(measure.nan_count for measure in measures),
        sum(measure.inf_count for measure in measures),
    )


def encode_record(measures: Sequence[GradientMeasure]) -> list[float]:
    """Return the record of `measures` with NARROW_SHIFTS: their norms need no more scaling."""
    nonzero_T = [float(m.nonzero_count) for m in measures]
    without_nan_T = [float(m.nonzero_count - m.nan_count) for m in measures]
    finite_T = [float(m.nonzero_count - m.nan_count - m.inf_count) for m in measures]
    return nonzero_T + without_nan_T + finite_T + [m.finite_norm for m in measures]


def decode_record(record_M: Sequence[float], shifts: tuple[int, ...]) -> list[GradientMeasure]:
    """Return the T measures that a record of shape (K, T), flattened, holds."""
    tensor_count = len(record_M) // (COUNT_ROWS + len(shifts))
    rows_KT = [record_M[start : start + tensor_count] for start in range(0, len(record_M), tensor_count)]
    return [
        GradientMeasure(
            _unscale(scaled_norms, shifts),
            int(nonzero),
            int(nonzero) - int(without_nan),
            int(without_nan) - int(finite),
        )
        for nonzero, without_nan, finite, *scaled_norms in zip(*rows_KT, strict=True)
    ]


def _unscale(scaled_norms: Sequence[float], shifts: tuple[int, ...]) -> float:
    """Return the norm from the first of its scaled forms that neither over- nor underflowed."""
    for scaled_norm, shift in zip(scaled_norms, shifts, strict=True):
        if SMALLEST_ACCURATE_NORM <= scaled_norm < math.inf:
            return scaled_norm * 2.0**-shift
    return scaled_norms[-1] * 2.0 ** -shifts[-1]


def norms_on_device(record_RM: Tensor, shifts: tuple[int, ...], tensor_count: int) -> Tensor:
    """Return the norms, as `GradientMeasure.norm`, of T gradients on each of R ranks: (R, T), nothing read."""
    nonzero_RT, without_nan_RT, finite_RT, *scaled_norms = record_RM.view(
        -1, COUNT_ROWS + len(shifts), tensor_count
    ).unbind(1)
    norms_RT = scaled_norms[-1] * 2.0 ** -shifts[-1]
    for scaled_RT, shift in reversed(list(zip(scaled_norms[:-1], shifts[:-1], strict=True))):
        is_accurate_RT = (scaled_RT >= SMALLEST_ACCURATE_NORM) & (scaled_RT < math.inf)
        norms_RT = torch.where(is_accurate_RT, scaled_RT * 2.0**-shift, norms_RT)
    norms_RT = norms_RT.masked_fill(without_nan_RT != finite_RT, math.inf)
    return norms_RT.masked_fill(nonzero_RT != without_nan_RT, math.nan)


def norm_of_norms(norms_N: Tensor) -> Tensor:
    """Return the float64 norm of parts with these norms, 0-d: NaN with any NaN, and no square over- or underflows."""
    limits = torch.finfo(torch.float64)
    scale = norms_N.amax().clamp(limits.tiny, limits.max)
    scaled_norm: Tensor = torch.linalg.vector_norm(norms_N / scale)
    return scaled_norm * scale
