"""A norm over ranks that wait for each other."""

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
