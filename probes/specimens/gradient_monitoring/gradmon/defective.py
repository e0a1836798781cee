"""Gradient collectors as they are often written; every one of them has a defect that a probe reproduces."""

from dataclasses import dataclass

import torch
from torch import nn

VANISHING_NORM = 1e-7
EXPLODING_NORM = 100.0


def squared_sum_norm(module: nn.Module) -> float:
    """Total gradient norm of a module."""
    total = None
    for parameter in module.parameters():
        if parameter.grad is None:
            continue
        squares = (parameter.grad.float() * parameter.grad.float()).sum()
        total = squares if total is None else total + squares
    return 0.0 if total is None else float(total.sqrt().item())


def double_copies_norm(module: nn.Module) -> float:
    """Total gradient norm of a module, safe from overflow."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return 0.0
    doubles = [grad.to_dense().double() for grad in grads]
    norms = torch._foreach_norm(doubles, ord=2)
    return float(torch.linalg.vector_norm(torch.stack(norms)).item())


def per_layer_norms(parameters) -> dict:
    """Norm of the gradients with the smallest and the largest layer, for the step log."""
    norms = [p.grad.norm(2).item() for p in parameters if p.grad is not None]
    if not norms:
        return {"grad_norm": 0.0, "min_layer_norm": 0.0, "max_layer_norm": 0.0}
    total = sum(norm**2 for norm in norms) ** 0.5
    return {"grad_norm": total, "min_layer_norm": min(norms), "max_layer_norm": max(norms)}


@dataclass
class GradientQuality:
    """How many gradient elements are zero, NaN or infinite."""

    grad_norm: float
    zero_fraction: float
    nan_count: int
    inf_count: int


def concatenated_quality(parameters) -> GradientQuality:
    """Quality of all gradients, read from the device once."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return GradientQuality(0.0, 0.0, 0, 0)
    flat = torch.cat([grad.view(-1) for grad in grads])
    counts = torch.stack(
        [
            torch.linalg.vector_norm(flat, dtype=torch.float64).float(),
            (flat == 0).sum().float(),
            torch.isnan(flat).sum().float(),
            torch.isinf(flat).sum().float(),
        ]
    )
    norm, zeros, nans, infs = counts.tolist()
    return GradientQuality(norm, zeros / flat.numel(), int(nans), int(infs))


def collect_health_async(parameters) -> dict:
    """Gradient health as device tensors: no synchronisation until `materialize_health`."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norms = torch.stack(torch._foreach_norm([grad.to_dense() for grad in grads], ord=2))
    vanishing = (norms < VANISHING_NORM).sum()
    exploding = (norms > EXPLODING_NORM).sum()
    if exploding > 0:
        norms = norms.clamp(max=float("inf"))
    return {"_norms": norms, "_vanishing": vanishing, "_exploding": exploding, "_layers": len(grads)}


def materialize_health(pending: dict) -> dict:
    """The numbers of `collect_health_async`, after the stream has been waited for."""
    vanishing = pending["_vanishing"].item() / pending["_layers"]
    exploding = pending["_exploding"].item() / pending["_layers"]
    return {
        "grad_norm": pending["_norms"].pow(2).sum().sqrt().item(),
        "health": max(0.0, 1.0 - 0.5 * vanishing - 0.8 * exploding),
        "has_exploding": exploding > 0,
    }


class IsolationMonitor:
    """Watches that a frozen host receives no gradients while a seed module trains."""

    def __init__(self, threshold: float = 1e-6):
        self.threshold = threshold
        self._host: list = []
        self._seed: list = []

    def register(self, host: nn.Module, seed: nn.Module) -> None:
        """Watch these two modules."""
        self._host = list(host.parameters())
        self._seed = list(seed.parameters())

    def check_isolation(self) -> dict:
        """Whether the host's gradients are zero, with both norms."""
        host = self._norm([p.grad for p in self._host if p.grad is not None])
        seed = self._norm([p.grad for p in self._seed if p.grad is not None])
        return {"isolated": host < self.threshold, "host_norm": host, "seed_norm": seed}

    @staticmethod
    def _norm(grads: list) -> float:
        return sum(grad.pow(2).sum() for grad in grads).sqrt().item() if grads else 0.0
