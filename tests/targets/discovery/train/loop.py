"""A script beside the package that logs through it."""

from telemetry.norms import of_module
from telemetry import pairs


def logged(net):
    return {"norm": of_module(net), "rank": 0}


def logged_later(params):
    return pairs.collect_stats_async(params)


def with_optimizer(optimizer):
    return sum(p.grad.norm() for group in optimizer.param_groups for p in group["params"])
