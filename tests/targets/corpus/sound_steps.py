"""Collectors with state, with two steps, or with two groups, as good training code has them."""

import collections
import math

import torch
from torch.distributed.tensor import DTensor


def _dense(g):
    """A gradient without its graph, whole, and of a sparse one the stored values, each place once."""
    g = g.detach()
    if isinstance(g, DTensor):
        g = g.full_tensor()
    return g.coalesce().values() if g.is_sparse else g


def _grads(parameters):
    return [_dense(p.grad) for p in parameters if p.grad is not None]


def _norm(grads):
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack([n.to(norms[0].device) for n in norms]))


def whole_norm(parameters) -> float:
    """Total norm of whole gradients, also where fully_shard has cut them."""
    grads = _grads(parameters)
    return _norm(grads).item() if grads else 0.0


def collect_norm_async(parameters) -> dict:
    """Total norm and a finite flag, left on the device for materialize_norm."""
    grads = _grads(parameters)
    norm = _norm(grads) if grads else torch.zeros((), dtype=torch.float64)
    return {"norm": norm, "finite": torch.isfinite(norm)}


def materialize_norm(pending: dict) -> dict:
    """The values of collect_norm_async, with one read."""
    norm, finite = torch.stack([pending["norm"], pending["finite"].double()]).tolist()
    return {"norm": norm, "is_finite": finite == 1.0}


class NormTracker:
    """A running mean of the norm over the last 64 steps; NaN and Inf are reported and kept out of the mean."""

    def __init__(self, window: int = 64):
        self._norms = collections.deque(maxlen=window)

    def update(self, parameters) -> dict:
        grads = _grads(parameters)
        norm = _norm(grads).item() if grads else 0.0
        if math.isfinite(norm):
            self._norms.append(norm)
        mean = sum(self._norms) / len(self._norms) if self._norms else 0.0
        return {"norm": norm, "mean_norm": mean, "is_finite": math.isfinite(norm)}


class ModuleMonitor:
    """Is given the module once, and asked after every step."""

    def __init__(self):
        self._module = None

    def register(self, module: torch.nn.Module) -> None:
        self._module = module

    def report(self) -> dict:
        grads = _grads(self._module.parameters())
        norm = _norm(grads).item() if grads else 0.0
        return {"grad_norm": norm, "is_finite": math.isfinite(norm)}


def compare_groups(host: torch.nn.Module, seed: torch.nn.Module) -> dict:
    """Norms of two modules and the seed's share of both, 0.0 where neither has any; one read."""
    groups = [_grads(module.parameters()) for module in (host, seed)]
    norms = [_norm(grads) if grads else None for grads in groups]
    device = next((n.device for n in norms if n is not None), torch.device("cpu"))
    zero = torch.zeros((), dtype=torch.float64, device=device)
    host_norm, seed_norm = torch.stack([zero if n is None else n.to(device) for n in norms]).tolist()
    both = math.hypot(host_norm, seed_norm)
    return {"host_norm": host_norm, "seed_norm": seed_norm, "seed_share": seed_norm / both if both else 0.0}


@torch.no_grad()
def unscale_gradients(parameters, loss_scale: float = 128.0) -> bool:
    """Divide the gradients by the loss scale, in place; whether all of them are finite, with one read."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return True
    for g in grads:
        g.mul_(1.0 / loss_scale)
    return math.isfinite(_norm([_dense(g) for g in grads]).item())
