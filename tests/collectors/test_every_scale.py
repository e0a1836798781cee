"""The norm at every scale, of gradients that hypothesis draws: apart, so that a GPU's tests of the passes need none."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.collectors.oracle import PASSES, exact_norm, norm_error_bound, relative_error
from tests.collectors.test_passes import DTYPES, NORMAL_EXPONENTS, random_tensor

pytestmark = pytest.mark.process


@pytest.mark.parametrize("pass_name", PASSES)
@settings(max_examples=60)
@given(data=st.data(), dtype=st.sampled_from(DTYPES), count=st.integers(1, 50), seed=st.integers(0, 99))
def test_norm_is_within_its_bound_at_every_scale(
    pass_name: str, data: st.DataObject, dtype: torch.dtype, count: int, seed: int
) -> None:
    """The norm of normal numbers of any magnitude is that of exact arithmetic, up to the bound."""
    exponents = data.draw(
        st.lists(st.integers(*NORMAL_EXPONENTS[dtype]), min_size=count, max_size=count), label="exponents"
    )
    scales = torch.tensor([2.0**exponent for exponent in exponents], dtype=torch.float64)
    gradient = (random_tensor(count, dtype, seed).double() * scales).to(dtype)
    assert gradient.isfinite().all()
    expected = exact_norm(gradient.tolist()) if _norm_is_float64(gradient) else math.inf
    actual = PASSES[pass_name]([gradient])[0].finite_norm
    assert relative_error(actual, expected) <= norm_error_bound(count, PASSES[pass_name], dtype)


def _norm_is_float64(gradient: Tensor) -> bool:
    return math.isfinite(math.hypot(*gradient.double().tolist()))
