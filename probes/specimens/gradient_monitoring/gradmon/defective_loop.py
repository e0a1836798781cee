"""Collectors that are right on ordinary gradients of one step, and wrong for others, later, or for who steps next."""

import torch

from .sound import layer_norms


def _gradients(parameters) -> list:
    return [p.grad for p in parameters if p.grad is not None]


def _norm(grads: list) -> torch.Tensor:
    return torch.linalg.vector_norm(layer_norms(grads))


def trained_layer_norm(parameters) -> dict:
    """Total gradient norm, and how many layers are trained."""
    norm = _norm(_gradients(parameters)).item()
    return {"grad_norm": norm, "trained_layers": sum(1 for p in parameters if p.grad is not None)}


def mean_layer_norm(parameters) -> dict:
    """Total gradient norm and its mean over the layers, for comparing models of different depth."""
    layers = list(parameters)
    grads = _gradients(layers)
    if not grads:
        return {"grad_norm": 0.0, "mean_norm": 0.0}
    total, added = torch.stack([_norm(grads), layer_norms(grads).sum()]).tolist()
    return {"grad_norm": total, "mean_norm": added / len(layers)}


def compare_groups(host_parameters, seed_parameters) -> dict:
    """Gradient norms of host and seed, and the seed's share of the host's."""
    host, seed = (_norm(_gradients(parameters)) for parameters in (host_parameters, seed_parameters))
    host_norm, seed_norm = torch.stack([host, seed.to(host.device)]).tolist()
    ratio = seed_norm / host_norm if host_norm else float("inf")
    return {"host_norm": host_norm, "seed_norm": seed_norm, "seed_ratio": ratio}


def repaired_norm(parameters) -> dict:
    """Total gradient norm; where it is not finite, the gradients are repaired so that training goes on."""
    grads = [grad.coalesce().values() if grad.is_sparse else grad for grad in _gradients(parameters)]
    norm = _norm(grads).item()
    is_finite = norm - norm == 0.0
    if not is_finite:
        for grad in grads:
            torch.nan_to_num_(grad, nan=0.0, posinf=0.0, neginf=0.0)
    return {"grad_norm": norm, "is_finite": is_finite}


@torch.no_grad()
def clip_gradients(parameters, max_norm: float) -> None:
    """Scale the gradients down to a total norm of `max_norm`, in place."""
    grads = _gradients(parameters)
    if grads:
        values = [grad.coalesce().values() if grad.is_sparse else grad for grad in grads]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(values, 2)))
        torch._foreach_mul_(grads, (max_norm / (norm + 1e-6)).clamp(max=1.0))


class GradientHistory:
    """The norm of every step, with the gradients it came from, for a report at the end of training."""

    def __init__(self) -> None:
        self.steps: list = []

    def record(self, parameters) -> dict:
        """Remember this step's gradients and return their norm."""
        grads = [grad.detach() for grad in _gradients(parameters)]
        self.steps.append(grads)
        return {"grad_norm": _norm(grads).item()}


class NormSummary:
    """The norm and the largest layer's norm, computed when somebody first asks."""

    def __init__(self) -> None:
        self._summary: dict = {}

    def read(self, parameters) -> dict:
        """The summary of the gradients, from the second time on without computing it again."""
        if not self._summary:
            norms = layer_norms([grad.detach() for grad in _gradients(parameters)] or [torch.zeros(1)])
            total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
            self._summary = {"grad_norm": total, "largest_norm": largest}
        return dict(self._summary)
