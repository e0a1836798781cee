import torch
from torch.distributed.tensor import DTensor, Replicate


def whole_norm(grad):
    # The norm of a sum is not the sum of norms: torch 2.9 takes it for that where a gradient is not reduced yet.
    reduced = [Replicate() if placement.is_partial() else placement for placement in grad.placements]
    return torch.linalg.vector_norm(grad.redistribute(placements=reduced), dtype=torch.float64).full_tensor()


def gradient_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    plain = [g for g in grads if not isinstance(g, DTensor)]
    norms = [whole_norm(g) for g in grads if isinstance(g, DTensor)]
    norms += torch._foreach_norm(plain, 2, dtype=torch.float64) if plain else []
    if not norms:
        return 0.0
    return torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms])).item()
