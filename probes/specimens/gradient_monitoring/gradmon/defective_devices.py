"""Collectors that were written for one device and one dtype, or that do the device's work on the host."""

import torch
from torch import nn

from .sound import stored_values

SMOOTHING = 0.1


def _norms(grads: list) -> torch.Tensor:
    return torch.stack(torch._foreach_norm(stored_values(grads), 2, dtype=torch.float64))


def local_norm(module: nn.Module) -> float:
    """Total gradient norm of a module."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    here = [grad for grad in grads if grad.device == grads[0].device]
    return torch.linalg.vector_norm(_norms(here)).item() if here else 0.0


def main_dtype_norm(parameters) -> float:
    """Total gradient norm, with the foreach operators, which are fastest for one dtype."""
    grads = [p.grad for p in parameters if p.grad is not None]
    fast = [grad for grad in grads if grad.dtype == grads[0].dtype]
    if not fast:
        return 0.0
    norms = torch._foreach_norm(stored_values(fast), 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms])).item()


def smoothed_layer_norms(parameters) -> dict:
    """Norm of the gradients, and the layers' norms smoothed from the first layer to the last."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "smoothed_norm": 0.0}
    smoothed = None
    for norm in torch._foreach_norm(stored_values(grads)):
        smoothed = norm if smoothed is None else torch.lerp(smoothed, norm, SMOOTHING)
    total, last = torch.stack([torch.linalg.vector_norm(_norms(grads)), smoothed]).tolist()
    return {"grad_norm": total, "smoothed_norm": last}


def host_norms(parameters) -> dict:
    """Norm of the gradients and the largest layer's, on the host, where memory is cheap."""
    grads = [p.grad.cpu() for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "max_layer_norm": 0.0}
    norms = _norms(grads)
    return {"grad_norm": torch.linalg.vector_norm(norms).item(), "max_layer_norm": norms.max().item()}
