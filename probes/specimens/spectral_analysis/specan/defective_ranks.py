"""The functions of `sound_ranks.py` with one defect each."""

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate

from .sound import spectral_echoes
from .sound_ranks import whole_norm


def _local(grad: torch.Tensor) -> torch.Tensor:
    return grad.to_local() if isinstance(grad, DTensor) else grad


def local_norm(parameters) -> float:
    """The norm of what this rank holds, logged as that of the model."""
    norms = [torch.linalg.vector_norm(_local(p.grad)) for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(norms)).item() if norms else 0.0


def summed_norm(parameters) -> float:
    """Squares summed over all ranks, replicas of a shard as often as there are."""
    squares = [_local(p.grad).square().sum() for p in parameters if p.grad is not None]
    total = torch.stack(squares).sum() if squares else torch.zeros(())
    if dist.is_initialized():
        dist.all_reduce(total)
    return total.sqrt().item()


def clip_by_local_norm(parameters, max_norm: float) -> None:
    """Every rank clips its shard by the norm of its shard."""
    grads = [_local(p.grad) for p in parameters if p.grad is not None]
    total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in grads]))
    for grad in grads:
        grad.mul_((max_norm / (total + 1e-6)).clamp(max=1.0))


def plain_norm_per_rank(parameters) -> float:
    """DTensors by torch's own operators, and plain gradients, which every rank has in whole, once for each rank."""
    grads = [p.grad for p in parameters if p.grad is not None]
    whole = [whole_norm(grad).square() for grad in grads if isinstance(grad, DTensor)]
    norms = [torch.linalg.vector_norm(grad, dtype=torch.float64) for grad in grads if not isinstance(grad, DTensor)]
    plain = torch.stack(norms).square().sum() if norms else torch.zeros((), dtype=torch.float64)
    if dist.is_initialized():
        dist.all_reduce(plain)
    return torch.stack([plain, *whole]).sum().sqrt().item()


def inner_mesh_norm(parameters) -> float:
    """Squares of shards summed over the last dimension of their mesh, whatever is sharded over the others."""
    squares = []
    for grad in [p.grad for p in parameters if p.grad is not None]:
        if not isinstance(grad, DTensor):
            squares.append(torch.linalg.vector_norm(grad, dtype=torch.float64).square())
            continue
        reduced = [Replicate() if placement.is_partial() else placement for placement in grad.placements]
        shards = grad.redistribute(placements=reduced)
        squares.append(torch.linalg.vector_norm(shards.to_local(), dtype=torch.float64).square())
        if shards.placements[-1].is_shard():
            dist.all_reduce(squares[-1], group=shards.device_mesh.get_group(-1))
    return torch.stack(squares).sum().sqrt().item() if squares else 0.0


def echoes_without_last(grads_RNM: torch.Tensor) -> torch.Tensor:
    """Echoes of the replicas of all ranks but the last, which is left out."""
    parts = [grads_RNM]
    if dist.is_initialized():
        parts = [torch.empty_like(grads_RNM) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, grads_RNM.contiguous())
        parts = parts[:-1] if dist.get_world_size() > 1 else parts
    return spectral_echoes(torch.cat(parts))


def unordered_keys_of_group(keys) -> list:
    """The parameters that this rank analyses, taken from a set."""
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    return list(set(keys))[rank::world_size]
