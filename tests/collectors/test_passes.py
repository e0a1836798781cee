"""What both passes promise: norms without overflow or underflow, exact counts, any strides."""

import math

import pytest
import torch
from torch import Tensor

from tests.collectors.oracle import PASSES, MeasureFunction, exact_norm, norm_error_bound, relative_error

pytestmark = pytest.mark.process

# Exponents of two of the smallest and largest normal number.
NORMAL_EXPONENTS = {
    torch.float16: (-14, 15),
    torch.bfloat16: (-126, 127),
    torch.float32: (-126, 127),
    torch.float64: (-1022, 1023),
}
DTYPES = list(NORMAL_EXPONENTS)


@pytest.fixture(params=PASSES, name="measure")
def _measure(request: pytest.FixtureRequest) -> MeasureFunction:
    return PASSES[request.param]


def random_tensor(count: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Magnitudes in [1, 2): a scale by a power of two is then exact over the whole normal range."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (count,), generator=generator) * 2 - 1
    return ((1 + torch.rand(count, generator=generator, dtype=torch.float64) * 0.99) * signs).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_norm_is_homogeneous_over_the_normal_range(dtype: torch.dtype, measure: MeasureFunction) -> None:
    """Scaling by a power of two scales the norm exactly, unless the norm itself leaves float64."""
    gradient = random_tensor(20_000, dtype)
    norm = measure([gradient])[0].finite_norm
    low, high = NORMAL_EXPONENTS[dtype]
    for exponent in range(low, high + 1, 1 if high < 100 else 29):
        scale = 2.0**exponent
        expected = norm * scale
        if dtype == torch.float64 and (exponent > 1000 or exponent < -1000):
            continue  # see the next test
        actual = measure([(gradient.double() * scale).to(dtype)])[0].finite_norm
        # A scaled piece may take the other, more accurate of the CPU pass's two ways.
        assert relative_error(actual, expected) <= norm_error_bound(0, measure, dtype), exponent


@pytest.mark.parametrize("magnitude", [1e300, 1e-300, 5e-324])
def test_float64_at_its_ends(magnitude: float, measure: MeasureFunction) -> None:
    """float64 gradients whose squares are no float64 keep their norm."""
    gradient = torch.full((10_000,), magnitude, dtype=torch.float64)
    assert relative_error(measure([gradient])[0].finite_norm, magnitude * 100) <= norm_error_bound(10_000)
    assert torch.linalg.vector_norm(gradient).item() in (0.0, math.inf)  # control: the plain norm fails


@pytest.mark.parametrize("dtype", DTYPES)
def test_norm_of_many_pieces(dtype: torch.dtype, measure: MeasureFunction) -> None:
    """A tensor of several pieces and batches has the norm of its whole."""
    gradient = random_tensor(1_200_003, dtype)
    expected = math.sqrt(math.fsum((gradient.double() ** 2).tolist()))  # fsum rounds once
    assert relative_error(measure([gradient])[0].finite_norm, expected) <= norm_error_bound(1_200_003, measure, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonfinite_elements_are_counted_and_left_out_of_the_finite_norm(
    dtype: torch.dtype, measure: MeasureFunction
) -> None:
    """NaN, both infinities and zeros of both signs: each is counted once, the rest has its norm."""
    clean = random_tensor(1000, dtype)
    clean[[5, 6, 7]] = torch.tensor([0.0, -0.0, 0.0], dtype=dtype)
    dirty = clean.clone()
    dirty[[5, 900]] = math.nan
    dirty[[901, 902]] = torch.tensor([math.inf, -math.inf], dtype=dtype)
    expected_clean, expected_dirty = measure([clean, dirty])
    assert (expected_clean.nonzero_count, expected_clean.nan_count, expected_clean.inf_count) == (997, 0, 0)
    assert (expected_dirty.nonzero_count, expected_dirty.nan_count, expected_dirty.inf_count) == (998, 2, 2)
    finite = [x for x in dirty.tolist() if math.isfinite(x)]
    assert relative_error(expected_dirty.finite_norm, exact_norm(finite)) <= norm_error_bound(1000, measure, dtype)
    assert math.isnan(expected_dirty.norm)


def test_counts_above_two_to_the_24_are_exact(measure: MeasureFunction) -> None:
    """2**24 + 3 zeros and ones are that many, which float32 cannot hold."""
    count = 2**24 + 3
    zeros, ones = torch.zeros(1).expand(count), torch.ones(1).expand(count)
    measured_zeros, measured_ones = measure([zeros, ones])
    assert (measured_zeros.nonzero_count, measured_ones.nonzero_count) == (0, count)
    assert relative_error(measured_ones.finite_norm, math.sqrt(count)) <= norm_error_bound(
        count, measure, torch.float32
    )
    assert int(torch.tensor(float(count), dtype=torch.float32).item()) != count  # control


STRIDED = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "channels_last": lambda t: t.view(10, 3, 20, 50).contiguous(memory_format=torch.channels_last),
    "sliced": lambda t: t[:, ::2, 3:],
    "expanded": lambda t: t[:, :1, :].expand(-1, 7, -1),
    "expanded scalar": lambda t: t[0, 0, 0].expand(300, 4),
    "offset": lambda t: t.view(-1)[11:],
    "one element": lambda t: t[3, 4, 5],
}


@pytest.mark.parametrize("strided", STRIDED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strides_do_not_matter(strided: str, dtype: torch.dtype, measure: MeasureFunction) -> None:
    """A view measures as its contiguous copy does, and is not written to."""
    base = random_tensor(30_000, dtype).view(100, 10, 30)
    base.view(-1)[::7] = 0
    before = base.clone()
    view = STRIDED[strided](base)
    actual, expected = measure([view])[0], measure([view.clone(memory_format=torch.contiguous_format)])[0]
    assert actual.nonzero_count == expected.nonzero_count
    assert relative_error(actual.finite_norm, expected.finite_norm) <= 2 * norm_error_bound(
        view.numel(), measure, dtype
    )
    assert torch.equal(base, before)


def test_empty_tensors_measure_zero(measure: MeasureFunction) -> None:
    """A tensor without elements has norm zero and counts zero, beside others and alone."""
    empty = torch.empty(0, 3)
    alone, beside = measure([empty])[0], measure([torch.ones(4), empty, torch.ones(9)])
    assert (alone.norm, alone.nonzero_count) == (0.0, 0)
    assert [m.norm for m in beside] == [2.0, 0.0, 3.0]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_float8(name: str, measure: MeasureFunction) -> None:
    """float8 has few operators; its gradients are measured all the same."""
    gradient = torch.tensor([3.0, 4.0, 0.0, math.nan]).to(getattr(torch, name))
    measured = measure([gradient])[0]
    assert (measured.finite_norm, measured.nonzero_count, measured.nan_count) == (5.0, 3, 1)
