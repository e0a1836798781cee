"""What is tested: all of `wired`, and the collector of `unwired`, which its package does not export."""

import pytest
import torch
from torch import nn
from unwired.collector import GradientCollector as UnwiredCollector
from unwired.loop import train_step as unwired_step
from unwired.norms import layer_norms as unwired_layer_norms
from wired import GradientCollector, collect_dual_norms_async, collect_gradients, layer_norms, materialize_dual_norms
from wired.loop import train_step
from wired.norms import stacked_norms


def layer(*gradients):
    made = nn.ParameterList(nn.Parameter(torch.zeros(len(gradient))) for gradient in gradients)
    for parameter, gradient in zip(made, gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    return made


@pytest.mark.parametrize("collector", [GradientCollector, UnwiredCollector])
def test_health_counts_what_is_out_of_bounds(collector):
    health = collector(1e-3, 4.5).collect(layer([3.0], [1e-4], [5.0]))
    assert (health.vanishing, health.exploding, health.is_healthy()) == (1, 1, False)
    assert collect_gradients([]).grad_norm == 0.0


@pytest.mark.parametrize("norms", [layer_norms, unwired_layer_norms])
def test_each_layer_has_its_norm(norms):
    assert norms(layer([3.0, 4.0], [2.0]).named_parameters()) == {"0": 5.0, "1": 2.0}


def test_the_ratio_is_of_norms_per_parameter():
    pending = collect_dual_norms_async([torch.ones(4)], [torch.ones(16)])
    assert materialize_dual_norms(pending).ratio == pytest.approx(1.0)
    assert materialize_dual_norms(collect_dual_norms_async([], [])).ratio == 0.0
    assert stacked_norms([torch.ones(4)]).tolist() == [2.0]


@pytest.mark.parametrize("step", [train_step, unwired_step])
def test_a_step_logs_three_things(step):
    host, seed, logged = nn.Linear(2, 3), nn.Linear(3, 1), {}
    optimizer = torch.optim.SGD([*host.parameters(), *seed.parameters()], lr=0.1)
    step(host, seed, torch.ones(4, 2), optimizer, logged.__setitem__)
    assert set(logged) == {"ratio", "health", "layers"}
