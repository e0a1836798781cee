"""Norms over ranks that misbehave: they wait for each other, end, or raise on one rank alone."""

import os

import torch
import torch.distributed as dist


def _local_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    grads = [g.to_local() if hasattr(g, "to_local") else g for g in grads]
    return torch.stack([torch.linalg.vector_norm(g) for g in grads]).norm()


def waits_for_rank_zero(parameters):
    """Every rank but the first takes part in the sum: they wait for ever."""
    total = _local_norm(parameters)
    if dist.is_initialized() and dist.get_rank() != 0:
        dist.all_reduce(total)
    return total.item()


def ends_on_one_rank(parameters):
    total = _local_norm(parameters)
    if dist.is_initialized():
        if dist.get_rank() == 1:
            os._exit(3)
        dist.all_reduce(total)
    return total.item()


def refuses_shards(parameters):
    """A refusal in words."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if any(hasattr(g, "to_local") for g in grads):
        raise TypeError("sharded gradients are not supported: give full tensors")
    return torch.stack([torch.linalg.vector_norm(g) for g in grads]).norm().item()


def mixes_meshes(parameters):
    """An error that is nobody's words."""
    grads = [p.grad for p in parameters if p.grad is not None]
    plain = torch.zeros(grads[0].shape)
    return (grads[0] + plain).norm().item() + 0.0


def knows_nothing_of_ranks(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return torch.stack([torch.linalg.vector_norm(g) for g in grads]).norm().item()
