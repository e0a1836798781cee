"""Isolation holds only where every gradient of the frozen module is zero or None."""

import math

import pytest
import torch
from torch import nn

from auditkit.collectors import GradientIsolationMonitor


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
