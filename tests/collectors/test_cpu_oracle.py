"""The CPU pass against exact arithmetic, where its float32 sums, packed gradients and second looks could go wrong."""

import math

import pytest
import torch
from torch import Tensor

from auditkit.collectors.cpu_pass import (
    CONVERTED_ELEMENTS,
    PACKED_ELEMENTS,
    PIECE_BYTES,
    ROW_ELEMENTS,
    WIDENED_ELEMENTS,
    measure_on_cpu,
)
from tests.collectors.oracle import UNIT_ROUNDOFF, exact_norm, norm_error_bound, relative_error

pytestmark = pytest.mark.process

PIECE = PIECE_BYTES // 4
# Both sides of every length at which another path is taken.
LENGTHS = [
    length + offset
    for length in (ROW_ELEMENTS, PACKED_ELEMENTS, CONVERTED_ELEMENTS, WIDENED_ELEMENTS, PIECE)
    for offset in (-1, 0, 1)
] + [1, 2, 3 * ROW_ELEMENTS, PIECE + ROW_ELEMENTS + 7]


def values(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sum_of_squares_norm(gradient: Tensor) -> float:
    """The norm from fsum of the squares, which are exact in float64 for float32: off by one rounding and the root's."""
    return math.sqrt(math.fsum((gradient.double() ** 2).tolist()))


def bound(gradient: Tensor) -> float:
    return norm_error_bound(gradient.numel(), measure_on_cpu, gradient.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_every_length_at_which_a_path_changes(dtype: torch.dtype) -> None:
    """Lengths around a row, a packed gradient and a piece, all in one call and each by itself."""
    gradients = [values(length, seed).to(dtype) for seed, length in enumerate(LENGTHS)]
    for gradient, together in zip(gradients, measure_on_cpu(gradients), strict=True):
        alone = measure_on_cpu([gradient])[0]
        expected = sum_of_squares_norm(gradient)
        for measure in (alone, together):
            assert relative_error(measure.finite_norm, expected) <= bound(gradient) + 4 * UNIT_ROUNDOFF
            assert measure.nonzero_count == int((gradient != 0).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("count", [100, 5000, PIECE + 300])
def test_nan_and_inf_at_every_kind_of_place(count: int, dtype: torch.dtype) -> None:
    """First, last, in the odd end, in one row, in all: counts are exact, and the finite rest keeps its norm."""
    places = {"first": [0], "last": [count - 1], "row": range(10, 60), "spread": range(0, count, 50)}
    for name, where in places.items():
        gradient = values(count).to(dtype)
        gradient[3] = 0.0
        index = torch.tensor([place for place in where if place != 3])
        gradient[index[::2]] = math.nan
        gradient[index[1::2]] = -math.inf
        measure = measure_on_cpu([gradient])[0]
        counts = (measure.nan_count, measure.inf_count, measure.nonzero_count)
        expected_counts = (len(index[::2]), len(index[1::2]), int((gradient != 0).sum()))
        assert counts == expected_counts, name
        finite = gradient[gradient.isfinite()]
        assert relative_error(measure.finite_norm, sum_of_squares_norm(finite)) <= bound(gradient) + 4 * UNIT_ROUNDOFF


def test_every_bfloat16_is_widened_to_its_value() -> None:
    """All 65536 bit patterns, by themselves and as a slice that has no flat view: NaN, Inf, subnormals, zeros."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    gradient = bits.view(torch.bfloat16)
    finite = gradient[gradient.isfinite()]
    # 8 exponent bits all set: 1 pattern of each sign is Inf, 127 are NaN.
    expected = (2**16 - 2, 2 * 127, 2)
    for view in (gradient, torch.stack([gradient.view(256, 256)] * 2, dim=2)[:, :, 0]):
        measure = measure_on_cpu([view])[0]
        assert (measure.nonzero_count, measure.nan_count, measure.inf_count) == expected
        assert relative_error(measure.finite_norm, exact_norm(finite.tolist())) <= bound(gradient)
