"""Statistics follow from the measures of each gradient: of one set, of two groups, and of a frozen module."""

import math
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from auditkit.collectors import DualGradientStats, GradientIsolationMonitor, collect_dual_gradients, collect_gradients
from auditkit.collectors.records import GradientMeasure
from auditkit.collectors.statistics import EXPLODING_NORM_THRESHOLD, VANISHING_NORM_THRESHOLD, summarize
from tests.collectors.oracle import relative_error


def measure(norm: float, nonzero_count: int = 10, nan_count: int = 0, inf_count: int = 0) -> GradientMeasure:
    return GradientMeasure(norm, nonzero_count, nan_count, inf_count)


def test_thresholds_are_exclusive() -> None:
    """A norm on a threshold neither vanishes nor explodes."""
    norms = [VANISHING_NORM_THRESHOLD, EXPLODING_NORM_THRESHOLD, 1e-8, 101.0]
    stats = summarize([measure(norm) for norm in norms], [10] * 4)
    assert (stats.vanishing_count, stats.exploding_count, stats.health) == (1, 1, 0.5)


def test_a_nan_shows_everywhere_and_leaves_the_finite_norm() -> None:
    """NaN: total, extremes and ratio are NaN, health is 0, finite_norm is the rest's."""
    stats = summarize([measure(3.0, nan_count=1), measure(4.0)], [10, 10])
    assert all(math.isnan(x) for x in (stats.total_norm, stats.min_norm, stats.max_norm, stats.norm_ratio))
    assert (stats.finite_norm, stats.health) == (5.0, 0.0)
    assert math.isnan(stats.per_tensor_norms[0])
    assert stats.per_tensor_norms[1] == 4.0


def test_norm_ratio_leaves_zeros_out_and_is_finite() -> None:
    """Zero norms have no ratio; a quotient beyond float64 is its largest number."""
    assert summarize([measure(0.0, 0), measure(2.0), measure(6.0)], [10] * 3).norm_ratio == 3.0
    assert summarize([measure(0.0, 0)], [10]).norm_ratio == 1.0
    assert summarize([measure(1e300), measure(1e-300)], [10] * 2).norm_ratio == sys.float_info.max


def test_names_and_numbers_for_a_logger() -> None:
    """One flat dictionary of numbers, each after the prefix; norms by name, or by place where there is none."""
    stats = summarize([measure(3.0), measure(4.0)], [10, 10], ["weight", ""])
    assert stats.norms == {"weight": 3.0, "1": 4.0}
    logged = stats.as_dict("gradients/", per_tensor=True)
    assert (logged["gradients/total_norm"], logged["gradients/norm/weight"], logged["gradients/norm/1"]) == (5, 3, 4)
    assert all(isinstance(value, int | float) for value in logged.values())
    assert len(logged) == len(stats.as_dict()) + 2
    ratio = DualGradientStats(stats, stats).as_dict("g/")
    assert (ratio["g/host/total_norm"], ratio["g/seed/tensor_count"], ratio["g/normalized_ratio"]) == (5.0, 2, 1.0)


def test_a_line_shows_statistics() -> None:
    """The norm, how many tensors, their health, and what is wrong."""
    assert repr(summarize([measure(3.0)] * 2, [10] * 2)) == "GradientStats(total_norm=4.24264, 2 tensors, health=1.00)"
    bad = repr(summarize([measure(3.0, nan_count=2)] * 500, [10] * 500))
    assert bad == "GradientStats(total_norm=nan, 500 tensors, health=0.00, 1000 NaN)"


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


@pytest.fixture(name="watched")
def _watched() -> tuple[GradientIsolationMonitor, nn.Linear, nn.Linear]:
    host, seed = nn.Linear(3, 3), nn.Linear(3, 2)
    monitor = GradientIsolationMonitor()
    monitor.register(host, seed)
    for parameter in seed.parameters():
        parameter.grad = torch.ones_like(parameter)
    return monitor, host, seed


Watched = tuple[GradientIsolationMonitor, nn.Linear, nn.Linear]


def test_no_gradients_and_zero_gradients_are_isolated(watched: Watched) -> None:
    """The host may have no gradients or zeros; the seed's are reported."""
    monitor, host, _ = watched
    isolated, stats = monitor.check_isolation()
    assert isolated
    assert stats.seed_norm == pytest.approx(math.sqrt(8), rel=1e-15)
    host.weight.grad = torch.zeros(3, 3)
    assert monitor.check_isolation()[0]


@pytest.mark.parametrize("leak", [1.0, 1e-38, math.nan, math.inf])
def test_any_leak_is_found(watched: Watched, leak: float) -> None:
    """One element that is not zero, however small, NaN or Inf, breaks isolation."""
    monitor, host, _ = watched
    host.weight.grad = torch.zeros(3, 3)
    host.weight.grad[1, 2] = leak
    isolated, stats = monitor.check_isolation()
    assert not isolated
    assert stats.host.zero_count == 8


def test_a_seed_inside_its_host_is_not_the_hosts() -> None:
    """A seed registered with the model that contains it is taken out of the host group."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    model(torch.ones(1, 2)).sum().backward()
    monitor = GradientIsolationMonitor()
    monitor.register(model, model[1])
    isolated, stats = monitor.check_isolation()
    assert isolated
    assert (stats.host.tensor_count, stats.seed.tensor_count) == (0, 2)
