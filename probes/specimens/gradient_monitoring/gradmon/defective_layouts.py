"""Collectors that are right for dense, contiguous, filled gradients and wrong for the others, or that write to them."""

import torch
from torch import nn


def stored_values(grads: list) -> list:
    """Sparse gradients as their distinct stored values, others as they are."""
    return [grad.coalesce().values() if grad.is_sparse else grad for grad in grads]


def _norms(grads: list) -> torch.Tensor:
    """One float64 norm for each tensor, together on the first one's device."""
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.stack([norm.to(norms[0].device) for norm in norms])


def restrided_norm(module: nn.Module) -> float:
    """Total gradient norm of a module; every gradient is read as one flat run of memory, without a copy."""
    grads = stored_values([p.grad for p in module.parameters() if p.grad is not None])
    if not grads:
        return 0.0
    flat = [torch.as_strided(grad, (grad.numel(),), (1,)) for grad in grads]
    return torch.linalg.vector_norm(_norms(flat)).item()


def embedding_norm(module: nn.Module) -> float:
    """Total gradient norm of a module whose embeddings may have sparse gradients."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return 0.0
    values = [grad._values() if grad.is_sparse else grad for grad in grads]
    return torch.linalg.vector_norm(_norms(values)).item()


def layer_rms(parameters) -> dict:
    """Root mean square of the gradient elements of each layer: the smallest and the largest, and the total norm."""
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    if not grads:
        return {"grad_norm": 0.0, "min_rms": 0.0, "max_rms": 0.0}
    norms = _norms(grads)
    elements = torch.tensor([grad.numel() for grad in grads], dtype=torch.float64, device=norms.device)
    rms = norms / elements.sqrt()
    total, smallest, largest = torch.stack([torch.linalg.vector_norm(norms), rms.min(), rms.max()]).tolist()
    return {"grad_norm": total, "min_rms": smallest, "max_rms": largest}


def repaired_norm(parameters) -> dict:
    """Total gradient norm; where it is not finite, the gradients are repaired so that training goes on."""
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    if not grads:
        return {"grad_norm": 0.0, "is_finite": True}
    norm = torch.linalg.vector_norm(_norms(grads)).item()
    is_finite = norm - norm == 0.0
    if not is_finite:
        for grad in grads:
            torch.nan_to_num_(grad, nan=0.0, posinf=0.0, neginf=0.0)
    return {"grad_norm": norm, "is_finite": is_finite}


def detached_norm(parameters) -> float:
    """Total gradient norm, without keeping the graph of the gradients alive."""
    grads = []
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = parameter.grad.detach()
            grads.append(parameter.grad)
    if not grads:
        return 0.0
    return torch.linalg.vector_norm(_norms(stored_values(grads))).item()
