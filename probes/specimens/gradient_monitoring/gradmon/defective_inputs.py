"""Collectors that are right for gradients as usual, and wrong without them, for zeros, or for a generator."""

import torch
from torch import nn

from .defective_layouts import stored_values


def _norms(grads: list) -> torch.Tensor:
    """The norm of every gradient, in one operator, together on the first one's device."""
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.stack([norm.to(norms[0].device) for norm in norms])


def collect_layers_async(parameters) -> dict:
    """Layer norms as device tensors, until `materialize_layers`."""
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    if not grads:
        return {"is_empty": True, "grad_norm": 0.0}
    norms = _norms(grads)
    return {"is_empty": False, "_total": torch.linalg.vector_norm(norms), "_largest": norms.max()}


def materialize_layers(pending: dict) -> dict:
    """The numbers of `collect_layers_async`."""
    if pending["is_empty"]:
        return {"grad_norm": pending["grad_norm"]}
    total, largest = torch.stack([pending["_total"], pending["_largest"]]).tolist()
    return {"grad_norm": total, "max_norm": largest}


def device_norm(module: nn.Module):
    """Total gradient norm of a module, left on the device."""
    grads = stored_values([p.grad.detach() for p in module.parameters() if p.grad is not None])
    return torch.linalg.vector_norm(_norms(grads)) if grads else 0.0


def trained_layer_norm(parameters) -> dict:
    """Total gradient norm, and how many layers are trained."""
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    trained = sum(1 for p in parameters if p.grad is not None)
    if not grads:
        return {"grad_norm": 0.0, "trained_layers": 0}
    return {"grad_norm": torch.linalg.vector_norm(_norms(grads)).item(), "trained_layers": trained}


def every_parameter_norm(module: nn.Module) -> float:
    """Total gradient norm of a module."""
    grads = stored_values([p.grad.detach() for p in module.parameters()])
    return torch.linalg.vector_norm(_norms(grads)).item() if grads else 0.0


def mean_layer_norm(parameters) -> dict:
    """Total gradient norm and its mean over the layers, for comparing models of different depth."""
    layers = list(parameters)
    grads = stored_values([p.grad for p in layers if p.grad is not None])
    if not grads:
        return {"grad_norm": 0.0, "mean_norm": 0.0}
    norms = _norms(grads)
    total, added = torch.stack([torch.linalg.vector_norm(norms), norms.sum()]).tolist()
    return {"grad_norm": total, "mean_norm": added / len(layers)}


def layer_imbalance(parameters) -> dict:
    """Total gradient norm, and the largest layer's norm over the smallest one's."""
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    grads = [grad for grad in grads if grad.numel()]
    if not grads:
        return {"grad_norm": 0.0, "imbalance": 1.0}
    norms = _norms(grads)
    total, imbalance = torch.stack([torch.linalg.vector_norm(norms), norms.max() / norms.min()]).tolist()
    return {"grad_norm": total, "imbalance": imbalance}


def compare_groups(host_parameters, seed_parameters) -> dict:
    """Gradient norms of host and seed, and the seed's share of the host's."""
    host, seed = (_group_norm(parameters) for parameters in (host_parameters, seed_parameters))
    host_norm, seed_norm = torch.stack([host, seed.to(host.device)]).tolist()
    ratio = seed_norm / host_norm if host_norm else float("inf")
    return {"host_norm": host_norm, "seed_norm": seed_norm, "seed_ratio": ratio}


def _group_norm(parameters) -> torch.Tensor:
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    return torch.linalg.vector_norm(_norms(grads)) if grads else torch.zeros((), dtype=torch.float64)
