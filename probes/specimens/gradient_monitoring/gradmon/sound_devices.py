"""The counterparts of `defective_devices.py`: gradients of any device and dtype, reduced where they lie."""

import torch
from torch import nn

from .sound import layer_norms

SMOOTHING = 0.1


def all_devices_norm(module: nn.Module) -> float:
    """Total gradient norm of a module whose parameters may lie on several devices."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    return torch.linalg.vector_norm(layer_norms(grads)).item() if grads else 0.0


def one_device_norm(module: nn.Module) -> float:
    """Total gradient norm of a module on one device; raises ValueError that names the devices of any other."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    devices = sorted({str(grad.device) for grad in grads})
    if len(devices) > 1:
        raise ValueError(f"gradients lie on several devices: {', '.join(devices)}")
    return torch.linalg.vector_norm(layer_norms(grads)).item() if grads else 0.0


def smoothed_layer_norms(parameters) -> dict:
    """Norm of the gradients, and the layers' norms smoothed from the first layer to the last."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "smoothed_norm": 0.0}
    norms = layer_norms(grads)
    ages = torch.arange(len(grads) - 1, -1, -1, device=norms.device, dtype=norms.dtype)
    weights = SMOOTHING * (1 - SMOOTHING) ** ages
    smoothed = (norms * weights).sum() + norms[0] * (1 - weights.sum())
    total, last = torch.stack([torch.linalg.vector_norm(norms), smoothed]).tolist()
    return {"grad_norm": total, "smoothed_norm": last}


def collect_norms_async(parameters) -> dict:
    """Norms as device tensors, by operators that a CUDA graph can hold; read by `materialize_norms`."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"_norms": torch.zeros(1, dtype=torch.float64)}
    return {"_norms": layer_norms(grads)}


def materialize_norms(pending: dict) -> dict:
    """The numbers of `collect_norms_async`, read in one copy."""
    norms = pending["_norms"]
    total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": total, "max_layer_norm": largest}
