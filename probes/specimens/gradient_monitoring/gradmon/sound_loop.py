"""The questions of `defective_loop.py`, answered without the defects."""

from collections import deque

import torch

from .sound import layer_norms


def _gradients(parameters) -> list:
    return [p.grad.detach() for p in parameters if p.grad is not None]


def _norm(grads: list) -> torch.Tensor:
    return torch.linalg.vector_norm(layer_norms(grads))


def trained_layer_norm(parameters) -> dict:
    """Total gradient norm, and how many layers are trained; the parameters are read once."""
    grads = _gradients(parameters)
    return {"grad_norm": _norm(grads).item(), "trained_layers": len(grads)}


def mean_layer_norm(parameters) -> dict:
    """Total gradient norm and its mean over the layers that have a gradient."""
    norms = layer_norms(_gradients(parameters))
    total, added = torch.stack([torch.linalg.vector_norm(norms), norms.sum()]).tolist()
    return {"grad_norm": total, "mean_norm": added / max(1, len(norms))}


def compare_groups(host_parameters, seed_parameters) -> dict:
    """Gradient norms of host and seed, and the seed's share of the host's: 0 where one of them is 0."""
    host, seed = (_norm(_gradients(parameters)) for parameters in (host_parameters, seed_parameters))
    host_norm, seed_norm = torch.stack([host, seed.to(host.device)]).tolist()
    is_defined = host_norm > 0.0 and seed_norm > 0.0
    ratio = seed_norm / host_norm if is_defined else 0.0
    return {"host_norm": host_norm, "seed_norm": seed_norm, "seed_ratio": ratio, "ratio_is_defined": is_defined}


def reported_norm(parameters) -> dict:
    """Total gradient norm and whether it is finite; the gradients stay as they are."""
    norm = _norm(_gradients(parameters)).item()
    return {"grad_norm": norm, "is_finite": norm - norm == 0.0}


@torch.no_grad()
def clip_gradients(parameters, max_norm: float) -> None:
    """Scale the gradients down to a total norm of `max_norm`, in place."""
    grads = [p.grad for p in parameters if p.grad is not None]
    # In two steps: a coefficient below 6e-8 is zero in float16.
    root = (max_norm / _norm(grads)).clamp(max=1.0).sqrt()
    for device in dict.fromkeys(grad.device for grad in grads):
        own = [grad for grad in grads if grad.device == device]
        _scale(own, root.to(device))
        _scale(own, root.to(device))


def _scale(grads: list, factor: torch.Tensor) -> None:
    """One private operator where torch has it, else one public call for each tensor."""
    if hasattr(torch, "_foreach_mul_"):
        torch._foreach_mul_(grads, factor)
    else:
        for grad in grads:
            grad.mul_(factor)


class GradientHistory:
    """The norms of the last thousand steps, as numbers, for a report at the end of training."""

    def __init__(self) -> None:
        self.steps: deque = deque(maxlen=1000)

    def record(self, parameters) -> dict:
        """Remember and return the norm of this step's gradients."""
        self.steps.append(_norm(_gradients(parameters)).item())
        return {"grad_norm": self.steps[-1]}


class NormSummary:
    """The norm, and the largest one so far."""

    def __init__(self) -> None:
        self._largest = 0.0

    def read(self, parameters) -> dict:
        """The summary of this step's gradients."""
        norm = _norm(_gradients(parameters)).item()
        self._largest = norm if norm != norm else max(self._largest, norm)
        return {"grad_norm": norm, "largest_so_far": self._largest}
