"""The same questions as in `defective_numerics.py`, answered without the defects, in plain torch."""

from collections import deque

import torch
from torch import nn

from .sound import layer_norms


def packed_norms(parameters) -> dict:
    """Total norm and largest layer; the layers' norms are rounded after the total is formed."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "largest_norm": 0.0}
    norms = layer_norms(grads)
    total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).float().tolist()
    return {"grad_norm": total, "largest_norm": largest}


def norm_of_norms(module: nn.Module) -> float:
    """Total gradient norm: the norm of the layers' norms, which are float64 until it is formed."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return 0.0
    return torch.linalg.vector_norm(layer_norms(grads)).item()


@torch.no_grad()
def clip_gradients(parameters, max_norm: float) -> None:
    """Scale the gradients down to a total norm of `max_norm`, in place."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if grads:
        # In two steps: a coefficient below 6e-8 is zero in float16.
        root = (max_norm / torch.linalg.vector_norm(layer_norms(grads))).clamp(max=1.0).sqrt()
        for device in dict.fromkeys(grad.device for grad in grads):
            own = [grad for grad in grads if grad.device == device]
            _scale(own, root.to(device))
            _scale(own, root.to(device))


def _scale(grads: list, factor: torch.Tensor) -> None:
    """In one operator where torch has the private one, else one public call for each tensor."""
    if hasattr(torch, "_foreach_mul_"):
        torch._foreach_mul_(grads, factor)
        return
    for grad in grads:
        grad.mul_(factor)


class GradientHistory:
    """The norms of the last thousand steps, as numbers, for a report at the end of training."""

    def __init__(self) -> None:
        self.steps: deque = deque(maxlen=1000)

    def record(self, parameters) -> dict:
        """Remember and return the norm of this step's gradients."""
        grads = [p.grad.detach() for p in parameters if p.grad is not None]
        self.steps.append(torch.linalg.vector_norm(layer_norms(grads)).item() if grads else 0.0)
        return {"grad_norm": self.steps[-1]}


class NormSummary:
    """The norm, and the largest one so far."""

    def __init__(self) -> None:
        self._largest = 0.0

    def read(self, parameters) -> dict:
        """The summary of this step's gradients."""
        grads = [p.grad.detach() for p in parameters if p.grad is not None]
        norm = torch.linalg.vector_norm(layer_norms(grads)).item() if grads else 0.0
        self._largest = norm if norm != norm else max(self._largest, norm)
        return {"grad_norm": norm, "largest_so_far": self._largest}


@torch.no_grad()
def norm_on_device(parameters) -> torch.Tensor:
    """Total gradient norm as a tensor without a graph, which the caller reads when it logs."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.zeros((), dtype=torch.float64)
    return torch.linalg.vector_norm(layer_norms(grads))
