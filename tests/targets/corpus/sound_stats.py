"""Statistics as good training code has them: exact counts, one read, health that sees NaN."""

import dataclasses
import math

import torch


def _dense(g):
    """A gradient without its graph; of a sparse one the stored values, each place once."""
    g = g.detach()
    return g.coalesce().values() if g.is_sparse else g


def _grads(parameters):
    return [_dense(p.grad) for p in parameters if p.grad is not None]


def _norms(grads):
    """Each gradient's norm in float64, together on the first gradient's device."""
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.stack([n.to(norms[0].device) for n in norms])


def _nonfinite(g):
    """How many elements are NaN or Inf, without a temporary of the gradient's size in 8 bytes."""
    return torch.count_nonzero(~torch.isfinite(g))


@dataclasses.dataclass(frozen=True)
class GradientStats:
    norm: float
    nonfinite_count: int
    zero_count: int
    elements: int


def gradient_stats(parameters) -> GradientStats:
    """Norm and exact counts with one read."""
    grads = _grads(parameters)
    elements = sum(g.numel() for g in grads)
    if not grads:
        return GradientStats(0.0, 0, 0, 0)
    norms = _norms(grads)
    device = norms.device
    bad = torch.stack([_nonfinite(g).to(device) for g in grads]).sum()
    live = torch.stack([torch.count_nonzero(g).to(device) for g in grads]).sum()
    # float64 holds every count below 2**53.
    norm, bad, live = torch.stack([torch.linalg.vector_norm(norms), bad.double(), live.double()]).tolist()
    return GradientStats(norm, int(bad), elements - int(live), elements)


def all_finite(parameters) -> bool:
    """Whether every gradient element is finite, by one read."""
    grads = _grads(parameters)
    if not grads:
        return True
    norm = torch.linalg.vector_norm(_norms(grads)).item()
    return math.isfinite(norm)


def health(parameters) -> dict:
    """A score: 1.0 below a norm of 1e3, 0.5 from there on, 0.0 for NaN and Inf."""
    grads = _grads(parameters)
    norm = torch.linalg.vector_norm(_norms(grads)).item() if grads else 0.0
    if not math.isfinite(norm):
        return {"norm": norm, "health": 0.0, "is_finite": False}
    return {"norm": norm, "health": 1.0 if norm < 1e3 else 0.5, "is_finite": True}


def found_inf(parameters) -> torch.Tensor:
    """1.0 on the device where any gradient holds NaN or Inf, as GradScaler keeps it; nothing is read."""
    grads = _grads(parameters)
    if not grads:
        return torch.zeros((), dtype=torch.float32)
    norms = _norms(grads)
    return (~torch.isfinite(norms)).any().float()


def layer_imbalance(parameters) -> dict:
    """Largest layer norm over the smallest one that is not zero; 1.0 where no layer has any gradient."""
    grads = [g for g in _grads(parameters) if g.numel()]
    if not grads:
        return {"imbalance": 1.0, "dead_layers": 0}
    norms = _norms(grads).tolist()
    if not all(math.isfinite(n) for n in norms):
        return {"imbalance": math.nan, "dead_layers": 0}
    live = [n for n in norms if n > 0.0]
    return {"imbalance": max(live) / min(live) if live else 1.0, "dead_layers": len(norms) - len(live)}


def exponent_histogram(parameters) -> dict:
    """Elements by decade of their magnitude, 1e-8 to 1e2, and how many are not finite; one read."""
    grads = [g for g in _grads(parameters) if g.numel()]
    if not grads:
        return {"bins": [0] * 10, "nonfinite": 0}
    device = grads[0].device
    # Pieces of 65,536 elements: their logarithms take half a megabyte, whatever the model's size.
    pieces = [piece for g in grads for piece in g.reshape(-1).split(65536)]
    bins = torch.zeros(10, dtype=torch.float64, device=device)
    for piece in pieces:
        logs = piece.abs().double().log10()
        bins += torch.histc(torch.where(torch.isfinite(logs), logs, 9.0), bins=10, min=-8, max=2).to(device)
    bad = torch.stack([_nonfinite(g).to(device) for g in grads]).sum()
    *counts, nonfinite = torch.cat([bins, bad.double().reshape(1)]).tolist()
    return {"bins": [int(c) for c in counts], "nonfinite": int(nonfinite)}


def dead_fraction(parameters) -> float:
    """Share of gradient elements that are exactly zero, in [0, 1]; 0.0 without elements."""
    grads = _grads(parameters)
    elements = sum(g.numel() for g in grads)
    if not elements:
        return 0.0
    live = torch.stack([torch.count_nonzero(g).to(grads[0].device) for g in grads]).sum()
    return 1.0 - live.item() / elements
