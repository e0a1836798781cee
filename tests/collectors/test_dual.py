"""Two groups of gradients, and the ratio of their intensities."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from auditkit.collectors import collect_dual_gradients, collect_gradients
from tests.collectors.oracle import relative_error


def ratio(host: list[torch.Tensor], seed: list[torch.Tensor]) -> float:
    return collect_dual_gradients(host, seed).materialize().normalized_ratio


def test_each_group_has_its_own_statistics() -> None:
    """Both groups are what collect_gradients gives for each alone; generators are fine."""
    host, seed = [torch.randn(3, 4), torch.randn(5).double()], [torch.randn(7)]
    stats = collect_dual_gradients(iter(host), iter(seed)).materialize()
    assert stats.host == collect_gradients(host).materialize()
    assert stats.seed == collect_gradients(seed).materialize()


@given(st.integers(1, 1000), st.integers(1, 1000), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_ratio_compares_root_mean_squares(
    host_count: int, seed_count: int, host_value: float, seed_value: float
) -> None:
    """Groups of constant elements have the ratio of the constants, whatever their sizes."""
    host = [torch.full((host_count,), host_value, dtype=torch.float64)]
    seed = [torch.full((seed_count,), seed_value, dtype=torch.float64)]
    assert relative_error(ratio(host, seed), seed_value / host_value) <= 1e-12


@pytest.mark.parametrize("other", [[], [torch.zeros(3)], [torch.empty(0)]])
def test_ratio_is_zero_where_a_side_is_zero(other: list[torch.Tensor]) -> None:
    """No gradients, zero gradients or no elements on either side, or both: 0.0, and said to be undefined."""
    some = [torch.ones(3)]
    for host, seed in ((some, other), (other, some), (other, other)):
        stats = collect_dual_gradients(host, seed).materialize()
        assert stats.normalized_ratio == 0.0
        assert not stats.ratio_is_defined


def test_ratio_of_nonfinite_gradients_is_nan() -> None:
    """NaN or Inf in a group shows in the ratio."""
    for bad in (math.nan, math.inf):
        assert math.isnan(ratio([torch.tensor([bad])], [torch.ones(2)]))
        assert math.isnan(ratio([torch.ones(2)], [torch.tensor([bad])]))
