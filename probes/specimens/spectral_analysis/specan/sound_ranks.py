"""Norms and echoes over the ranks of a process group."""

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate

from .sound import spectral_echoes


def whole_norm(grad: DTensor) -> torch.Tensor:
    """The norm of a whole gradient; what is not reduced over ranks yet is reduced before."""
    reduced = [Replicate() if placement.is_partial() else placement for placement in grad.placements]
    return torch.linalg.vector_norm(grad.redistribute(placements=reduced), dtype=torch.float64).full_tensor()


def total_norm(grads: list) -> float:
    """The norm of all gradients together, sharded or not."""
    dense = [grad.coalesce().values() if grad.is_sparse else grad for grad in grads]
    plain = [grad for grad in dense if not isinstance(grad, DTensor)]
    norms = [whole_norm(grad) for grad in dense if isinstance(grad, DTensor)]
    norms += torch._foreach_norm(plain, 2, dtype=torch.float64) if plain else []
    if not norms:
        return 0.0
    return torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms])).item()


def sharded_norm(parameters) -> float:
    """Total gradient norm, the same on every rank however the gradients are sharded."""
    return total_norm([p.grad for p in parameters if p.grad is not None])


def clip_sharded(parameters, max_norm: float) -> float:
    """Scale all gradients by one factor, so that their whole norm is at most `max_norm`; returns the norm before."""
    grads = [p.grad for p in parameters if p.grad is not None]
    total = total_norm(grads)
    if grads:
        torch._foreach_mul_(grads, min(1.0, max_norm / (total + 1e-6)))
    return total


def gathered_echoes(grads_RNM: torch.Tensor):
    """Echoes of all ranks' replicas; None on every rank but the first."""
    parts = [grads_RNM]
    if dist.is_initialized():
        parts = [torch.empty_like(grads_RNM) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, grads_RNM.contiguous())
        if dist.get_rank() != 0:
            return None
    return spectral_echoes(torch.cat(parts))


def shard_keys_of_group(keys) -> list:
    """The parameters that this rank analyses."""
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    return list(keys)[rank::world_size]
