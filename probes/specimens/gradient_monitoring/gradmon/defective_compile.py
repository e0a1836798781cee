"""Collectors that torch.compile cuts into pieces: a branch, a line of the log, a read for each layer."""

import logging
import math

import torch

from .sound import stored_values

logger = logging.getLogger(__name__)


def _norms(grads: list) -> torch.Tensor:
    """One float64 norm for each tensor, on the first one's device."""
    norms = torch._foreach_norm(stored_values(grads), 2, dtype=torch.float64)
    return torch.stack([norm.to(norms[0].device) for norm in norms])


def branching_share(parameters) -> dict:
    """Norm of the gradients, and the largest layer's share of it."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "largest_share": 0.0}
    norms = _norms(grads)
    total, largest = torch.linalg.vector_norm(norms), norms.max()
    if total > 0:
        largest = largest / total
    values = torch.stack([total, largest]).tolist()
    return {"grad_norm": values[0], "largest_share": values[1]}


def _layer_norm(grad: torch.Tensor) -> float:
    return torch.linalg.vector_norm(grad, dtype=torch.float64).item()


def read_layer_norms(parameters) -> dict:
    """Norm of the gradients with the largest layer, each layer read as soon as it is known."""
    norms = [_layer_norm(grad) for grad in stored_values([p.grad for p in parameters if p.grad is not None])]
    return {"grad_norm": math.hypot(*norms), "max_layer_norm": max(norms, default=0.0)}


def collect_logged_async(parameters) -> dict:
    """Norms as device tensors, until `materialize_logged`."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"_norms": torch.zeros(1, dtype=torch.float64)}
    norms = _norms(grads)
    logger.debug("collected %d gradients", len(grads))
    return {"_norms": norms * 1.0}


def materialize_logged(pending: dict) -> dict:
    """The numbers of `collect_logged_async`, read in one copy."""
    norms = pending["_norms"]
    total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": total, "max_layer_norm": largest}
