"""Norms, clipping and histories that are right on ordinary gradients, and wrong in their last digits or later."""

import torch
from torch import nn

from gradmon.sound import stored_values


def packed_norms(parameters) -> dict:
    """Total norm and largest layer; the layers' norms are kept in 16 bits, as the log keeps them."""
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    if not grads:
        return {"grad_norm": 0.0, "largest_norm": 0.0}
    norms = torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)).bfloat16()
    total, largest = torch.stack([torch.linalg.vector_norm(norms.double()), norms.max().double()]).tolist()
    return {"grad_norm": total, "largest_norm": largest}


def norm_of_norms(module: nn.Module) -> float:
    """Total gradient norm: the norm of the layers' norms, each in its gradient's own type."""
    grads = stored_values([p.grad for p in module.parameters() if p.grad is not None])
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2))).item() if grads else 0.0


@torch.no_grad()
def clip_gradients(parameters, max_norm: float) -> None:
    """Scale the gradients down to a total norm of `max_norm`, in place."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if grads:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(stored_values(grads), 2)))
        torch._foreach_mul_(grads, (max_norm / (norm + 1e-6)).clamp(max=1.0))


class GradientHistory:
    """The norm of every step, with the gradients it came from, for a report at the end of training."""

    def __init__(self) -> None:
        self.steps: list = []

    def record(self, parameters) -> dict:
        """Remember this step's gradients and return their norm."""
        grads = [p.grad.detach() for p in parameters if p.grad is not None]
        self.steps.append(grads)
        if not grads:
            return {"grad_norm": 0.0}
        norms = torch._foreach_norm(stored_values(grads), 2, dtype=torch.float64)
        return {"grad_norm": torch.linalg.vector_norm(torch.stack(norms)).item()}


class NormSummary:
    """The norm and the largest layer's norm, computed when somebody first asks."""

    def __init__(self) -> None:
        self._summary: dict = {}

    def read(self, parameters) -> dict:
        """The summary of the gradients, from the second time on without computing it again."""
        if not self._summary:
            grads = stored_values([p.grad.detach() for p in parameters if p.grad is not None])
            norms = torch._foreach_norm(grads or [torch.zeros(1)], 2, dtype=torch.float64)
            norms = torch.stack([norm.to(norms[0].device) for norm in norms])
            total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
            self._summary = {"grad_norm": total, "largest_norm": largest}
        return dict(self._summary)


def norm_on_device(parameters) -> torch.Tensor:
    """Total gradient norm as a tensor, which the caller reads when it logs."""
    grads = stored_values([p.grad for p in parameters if p.grad is not None])
    if not grads:
        return torch.zeros((), dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)))
