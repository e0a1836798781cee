"""Collect now, materialize later."""

from dataclasses import dataclass

import torch


@dataclass
class PendingNorms:
    total: torch.Tensor


class Collector:
    def __init__(self, limit: float = 10.0):
        self.limit = limit

    def collect_async(self, parameters):
        grads = [p.grad for p in parameters if p.grad is not None]
        norms = torch.stack(torch._foreach_norm(grads))
        return {"_squared": norms.pow(2).sum(), "_above": (norms > self.limit).sum()}

    def collect(self, parameters):
        return materialize_stats(self.collect_async(parameters))


def materialize_stats(pending):
    return {"norm": pending["_squared"].item() ** 0.5, "above": pending["_above"].item()}


def collect_stats_async(parameters, limit=10.0):
    collector = Collector(limit=limit)
    return collector.collect_async(parameters)


def collect_part_async(parameters):
    """Half of what collect_both_async gives."""
    grads = [p.grad for p in parameters]
    return {"_host": torch.stack(torch._foreach_norm(grads)).sum()}


def collect_both_async(host_parameters, seed_parameters):
    host = collect_part_async(host_parameters)
    seed = collect_part_async(seed_parameters)
    return {"_host": host["_host"], "_seed": seed["_host"]}


def materialize_both(pending):
    return pending["_host"].item(), pending["_seed"].item()


def collect_norms(parameters) -> PendingNorms:
    """Collect without a sync."""
    return PendingNorms(torch.stack([p.grad.norm() for p in parameters]).norm())


def finalize_norms(pending: PendingNorms) -> float:
    return pending.total.item()
