"""The questions of `defective_layouts.py`, answered for every layout, for no elements, and without writing."""

import torch
from torch import nn

from .sound import layer_norms, stored_values


def strided_norm(module: nn.Module) -> float:
    """Total gradient norm of a module; the operator takes the strides as they are."""
    grads = stored_values([p.grad for p in module.parameters() if p.grad is not None])
    if not grads:
        return 0.0
    return torch.linalg.vector_norm(layer_norms(grads)).item()


def dense_norm(module: nn.Module) -> float:
    """Total gradient norm of a module. Raises TypeError for sparse gradients."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if any(grad.is_sparse for grad in grads):
        raise TypeError("sparse gradients are not supported: build the embedding with sparse=False")
    if not grads:
        return 0.0
    return torch.linalg.vector_norm(layer_norms(grads)).item()


def layer_rms(parameters) -> dict:
    """Root mean square of the gradient elements of each layer that has any: smallest, largest, and the total norm."""
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    grads = [grad for grad in grads if grad.numel()]
    if not grads:
        return {"grad_norm": 0.0, "min_rms": 0.0, "max_rms": 0.0}
    norms = layer_norms(grads)
    elements = torch.tensor([grad.numel() for grad in grads], dtype=torch.float64, device=norms.device)
    rms = norms / elements.sqrt()
    total, smallest, largest = torch.stack([torch.linalg.vector_norm(norms), rms.min(), rms.max()]).tolist()
    return {"grad_norm": total, "min_rms": smallest, "max_rms": largest}


def reported_norm(parameters) -> dict:
    """Total gradient norm and whether it is finite; the gradients stay as they are, with their graph."""
    grads = stored_values([p.grad.detach() for p in parameters if p.grad is not None])
    if not grads:
        return {"grad_norm": 0.0, "is_finite": True}
    norm = torch.linalg.vector_norm(layer_norms(grads)).item()
    return {"grad_norm": norm, "is_finite": norm - norm == 0.0}
