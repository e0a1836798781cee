"""Exact answers, and both passes behind one signature, for the tests of the collectors."""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from auditkit.collectors.cpu_pass import measure_on_cpu
from auditkit.collectors.device_pass import measure_on_device
from auditkit.collectors.records import GradientMeasure, decode_record, shifts_for

MeasureFunction = Callable[[Sequence[Tensor]], list[GradientMeasure]]

# Half a unit in the last place of float64: the relative error of one rounding.
UNIT_ROUNDOFF = 2.0**-53
# What the square of an element goes through in the float32 sums of the CPU pass.
NARROW_ROUNDINGS = 32


def exact_norm(values: Iterable[float]) -> float:
    """Return the L2 norm of finite numbers, from exact rational arithmetic, off by at most one rounding."""
    total = sum((Fraction(value) ** 2 for value in values), Fraction(0))
    if total == 0:
        return 0.0
    # Scale so that the integer root has more than 100 bits: its truncation is below 2**-100 relative.
    shift = max(0, 200 - total.numerator.bit_length() + total.denominator.bit_length())
    shift += shift % 2
    root = math.isqrt((total.numerator << shift) // total.denominator)
    return float(Fraction(root, 2 ** (shift // 2)))


def relative_error(actual: float, expected: float) -> float:
    """Return |actual - expected| / |expected| without overflow, 0.0 where both are equal."""
    if actual == expected:
        return 0.0
    if not math.isfinite(actual) or expected == 0.0:
        return math.inf
    return float(abs(Fraction(actual) - Fraction(expected)) / abs(Fraction(expected)))


def norm_error_bound(
    element_count: int, measure: MeasureFunction | None = None, dtype: torch.dtype = torch.float64
) -> float:
    """Return the bound on the relative error of the norm of `element_count` elements by one of the passes.

    A float64 sum of n squares in any order is off by at most n * u relative: each square is rounded once and
    passes through at most n - 1 additions. A root halves that and adds one rounding. Combining pieces with
    math.hypot, scaling and the oracle add a few more: 8 * u covers them. The CPU pass sums the squares of
    narrower types in float32 first: no square goes through more than 32 roundings there (see cpu_pass).
    """
    narrow = NARROW_ROUNDINGS / 2 * 2.0**-24 if measure is measure_on_cpu and dtype != torch.float64 else 0.0
    return (element_count / 2 + 8) * UNIT_ROUNDOFF + narrow


def device_measures(tensors: Sequence[Tensor]) -> list[GradientMeasure]:
    """Run the device pass on tensors of one dtype, wherever they lie, and decode its record."""
    shifts = shifts_for(tensors[0].dtype)
    return decode_record(measure_on_device(tensors, shifts).tolist(), shifts)


PASSES: dict[str, MeasureFunction] = {"cpu": measure_on_cpu, "device": device_measures}
