"""The questions of `defective_inputs.py`, with one kind of answer for every input."""

import math

import torch
from torch import nn

from .sound import layer_norms, stored_values


def _norms(grads: list) -> torch.Tensor:
    """The layers' norms; without gradients one zero."""
    return layer_norms(grads) if grads else torch.zeros(1, dtype=torch.float64)


def _gradients(parameters) -> list:
    return stored_values([p.grad.detach() for p in parameters if p.grad is not None])


def collect_layers_async(parameters) -> dict:
    """Layer norms as device tensors, until `materialize_layers`."""
    norms = _norms(_gradients(parameters))
    return {"_total": torch.linalg.vector_norm(norms), "_largest": norms.max()}


def materialize_layers(pending: dict) -> dict:
    """The numbers of `collect_layers_async`."""
    total, largest = torch.stack([pending["_total"], pending["_largest"]]).tolist()
    return {"grad_norm": total, "max_norm": largest}


def device_norm(module: nn.Module) -> torch.Tensor:
    """Total gradient norm of a module, left on the device."""
    return torch.linalg.vector_norm(_norms(_gradients(module.parameters())))


def refusing_norm(module: nn.Module) -> torch.Tensor:
    """Total gradient norm of a module. Raises ValueError where it has no gradients."""
    grads = _gradients(module.parameters())
    if not grads:
        raise ValueError("the module has no gradients: call backward() first")
    return torch.linalg.vector_norm(_norms(grads))


def trained_layer_norm(parameters) -> dict:
    """Total gradient norm, and how many layers are trained; the parameters are read once."""
    grads = _gradients(parameters)
    return {"grad_norm": torch.linalg.vector_norm(_norms(grads)).item(), "trained_layers": len(grads)}


def mean_layer_norm(parameters) -> dict:
    """Total gradient norm and its mean over the layers that have a gradient."""
    norms = _norms(_gradients(parameters))
    total, mean = torch.stack([torch.linalg.vector_norm(norms), norms.mean()]).tolist()
    return {"grad_norm": total, "mean_norm": mean}


def layer_imbalance(parameters) -> dict:
    """Total gradient norm, and the largest layer's norm over that of the smallest one that is not zero."""
    norms = _norms(_gradients(parameters)).tolist()
    working = [norm for norm in norms if norm > 0.0]
    imbalance = max(working) / min(working) if working else 1.0
    return {"grad_norm": math.hypot(*norms), "imbalance": imbalance}


def compare_groups(host_parameters, seed_parameters) -> dict:
    """Gradient norms of host and seed, and the seed's share of the host's: 0 where one of them is 0."""
    host, seed = [torch.linalg.vector_norm(_norms(_gradients(group))) for group in (host_parameters, seed_parameters)]
    host_norm, seed_norm = torch.stack([host, seed.to(host.device)]).tolist()
    is_defined = host_norm > 0.0 and seed_norm > 0.0
    ratio = seed_norm / host_norm if is_defined else 0.0
    return {"host_norm": host_norm, "seed_norm": seed_norm, "seed_ratio": ratio, "ratio_is_defined": is_defined}
