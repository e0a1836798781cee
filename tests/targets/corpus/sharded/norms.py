"""Norms of gradients that fully_shard has cut into pieces."""

import torch
from torch.distributed.tensor import DTensor


def _norm(grads):
    if not grads:
        return 0.0
    norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads]
    return torch.linalg.vector_norm(torch.stack(norms)).item()


def local_norm(parameters):
    """Total norm of what this rank holds."""  # wrong on purpose: nobody adds up the ranks
    grads = [p.grad for p in parameters if p.grad is not None]
    return _norm([g.to_local() if isinstance(g, DTensor) else g for g in grads])


def whole_norm(parameters):
    """Total norm of the whole gradients, whichever rank asks."""
    grads = [p.grad for p in parameters if p.grad is not None]
    return _norm([g.full_tensor() if isinstance(g, DTensor) else g for g in grads])
