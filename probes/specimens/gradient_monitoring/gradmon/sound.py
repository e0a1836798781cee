"""The same questions as in `defective.py`, answered without the defects, in plain torch."""

from dataclasses import dataclass

import torch
from torch import nn

VANISHING_NORM = 1e-7
EXPLODING_NORM = 100.0
PACK_ELEMENTS = 1 << 20


def stored_values(grads: list) -> list:
    """Sparse gradients as the values of their distinct elements, which are dense; others as they are."""
    return [grad.coalesce().values() if grad.is_sparse else grad for grad in grads]


def layer_norms(grads: list) -> torch.Tensor:
    """One float64 norm for each tensor, in one operator, on its own device and then together on the first one's."""
    if not grads:
        return torch.zeros(0, dtype=torch.float64)
    norms = _foreach_norms(stored_values(grads))
    return torch.stack([norm.to(norms[0].device) for norm in norms])


def _foreach_norms(grads: list) -> list:
    """The private operator where torch has it, else one public call for each tensor."""
    if hasattr(torch, "_foreach_norm"):
        return list(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return [torch.linalg.vector_norm(grad, 2, dtype=torch.float64) for grad in grads]


def foreach_norm(module: nn.Module) -> float:
    """Total gradient norm of a module: overflow-safe, no copy on CUDA, one read."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    return torch.linalg.vector_norm(layer_norms(grads)).item() if grads else 0.0


def stacked_layer_norms(parameters) -> dict:
    """Norm of the gradients with the smallest and the largest layer, read together."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "min_layer_norm": 0.0, "max_layer_norm": 0.0}
    norms = layer_norms(grads)
    total, smallest, largest = torch.stack([torch.linalg.vector_norm(norms), norms.min(), norms.max()]).tolist()
    return {"grad_norm": total, "min_layer_norm": smallest, "max_layer_norm": largest}


@dataclass
class GradientQuality:
    """How many gradient elements are zero, NaN or infinite."""

    grad_norm: float
    zero_fraction: float
    nan_count: int
    inf_count: int


def counted_quality(parameters) -> GradientQuality:
    """Quality of all gradients: integer counts, a million elements at a time, read once.

    Counts travel as float64, exact up to 2**53.
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    elements = sum(grad.numel() for grad in grads)
    if not elements:
        return GradientQuality(0.0, 0.0, 0, 0)
    norm = torch.linalg.vector_norm(layer_norms(grads))
    nonzeros = nans = infs = 0
    for pack in _packs(stored_values(grads)):
        nonzeros = nonzeros + torch.count_nonzero(pack).to(norm.device)
        nans = nans + torch.count_nonzero(torch.isnan(pack)).to(norm.device)
        infs = infs + torch.count_nonzero(torch.isinf(pack)).to(norm.device)
    total_norm, nonzero_count, nan_count, inf_count = torch.stack([norm, nonzeros, nans, infs]).tolist()
    return GradientQuality(total_norm, (elements - nonzero_count) / elements, int(nan_count), int(inf_count))


def _packs(grads: list):
    """The gradients as buffers of at most PACK_ELEMENTS: launches grow with elements, not with tensors."""
    pieces, space = [], PACK_ELEMENTS
    for grad in sorted(grads, key=lambda grad: str(grad.device)):
        for piece in grad.reshape(-1).split(PACK_ELEMENTS):
            if piece.numel() > space or (pieces and pieces[0].device != piece.device):
                yield torch.cat(pieces)
                pieces, space = [], PACK_ELEMENTS
            pieces.append(piece)
            space -= piece.numel()
    if pieces:
        yield torch.cat(pieces)


def collect_health_async(parameters) -> dict:
    """Gradient health as device tensors: no synchronisation until `materialize_health`."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norms = layer_norms(grads)
    total = torch.linalg.vector_norm(norms)
    vanishing = (norms < VANISHING_NORM).sum()
    exploding = (~(norms <= EXPLODING_NORM)).sum()  # NaN, too
    return {"_stacked": torch.stack([total, vanishing, exploding]), "_layers": len(grads)}


def materialize_health(pending: dict) -> dict:
    """The numbers of `collect_health_async`, read in one copy; a non-finite norm has no health."""
    total, vanishing, exploding = pending["_stacked"].tolist()
    is_finite = total - total == 0.0
    layers = max(1, pending["_layers"])
    health = 1.0 - 0.5 * vanishing / layers - 0.8 * exploding / layers
    return {
        "grad_norm": total,
        "health": max(0.0, health) if is_finite else 0.0,
        "has_exploding": exploding > 0,
        "is_finite": is_finite,
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
        """Whether the host's gradients are zero, with both norms; NaN is not isolated."""
        host = self._norm([p.grad for p in self._host if p.grad is not None])
        seed = self._norm([p.grad for p in self._seed if p.grad is not None])
        return {"isolated": host < self.threshold, "host_norm": host, "seed_norm": seed}

    @staticmethod
    def _norm(grads: list) -> float:
        return torch.linalg.vector_norm(layer_norms(grads)).item() if grads else 0.0
