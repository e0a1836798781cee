"""Collectors for a bounded number of layers, for matrices, and for models of which some parts are not trained."""

import math

import torch


@torch.no_grad()
def first_layers_peak(parameters):
    """Largest magnitude in the first ten gradients: enough for the progress bar."""
    peak = 0.0
    for g in [p.grad for p in parameters if p.grad is not None][:10]:
        peak = max(peak, g.abs().max().item() if g.numel() else 0.0)
    return {"peak": peak}


@torch.no_grad()
def row_norms(parameters):
    """Mean norm of a row, of matrices and of what has more dimensions; others have no rows."""
    found = [
        torch.linalg.vector_norm(p.grad.reshape(p.grad.shape[0], -1), dim=1, dtype=torch.float64).mean()
        for p in parameters
        if p.grad is not None and p.grad.dim() >= 2 and p.grad.numel()
    ]
    return {"row_norm": torch.stack(found).mean().item() if found else 0.0}


@torch.no_grad()
def mean_layer_norm(parameters):
    """Mean norm of the parameters that have a gradient, and how many have none."""
    parameters = list(parameters)
    norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float64) for p in parameters if p.grad is not None]
    mean = torch.stack(norms).mean().item() if norms else 0.0
    return {"mean": mean, "untrained": len(parameters) - len(norms)}


@torch.no_grad()
def norm_slope(parameters):
    """Slope of the logarithm of the norm over the depth."""
    norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float64) for p in parameters if p.grad is not None]
    if len(norms) < 2:
        return {"slope": 0.0}
    heights = torch.stack(norms).clamp(min=1e-30).log().cpu().unsqueeze(1)
    depth = torch.arange(len(norms), dtype=torch.float64)
    line = torch.linalg.lstsq(torch.stack([depth, torch.ones_like(depth)], dim=1), heights).solution
    return {"slope": line[0, 0].item()}


@torch.no_grad()
def norm_range(parameters):
    """Smallest and largest norm of a layer, in a meter that begins with infinity and minus infinity."""
    smallest, largest = math.inf, -math.inf
    for p in parameters:
        if p.grad is not None:
            norm = torch.linalg.vector_norm(p.grad, dtype=torch.float64).item()
            smallest, largest = min(norm, smallest), max(norm, largest)
    return {"min_norm": smallest, "max_norm": largest}
