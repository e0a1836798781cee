"""Loops that look as if they waited: what is tested is a type, a shape or a plain truth value."""

import torch


def is_matrix(p: torch.Tensor) -> bool:
    return p.ndim > 1


def matrix_norm(parameters):
    """Total norm of the matrices, chosen by a function that answers a plain truth value; one read."""
    norms = []
    for p in parameters:
        if p.grad is not None and is_matrix(p):
            norms.append(torch.linalg.vector_norm(p.grad, dtype=torch.float64))
    return {"matrix_norm": torch.linalg.vector_norm(torch.stack(norms)).item() if norms else 0.0}


def mixed_values(grads: list):
    """Peaks of tensors beside plain numbers, told apart by isinstance before anything is compared; one read."""
    peaks = []
    for value in grads:
        if isinstance(value, float) and value > 0.0:
            peaks.append(torch.tensor(value, dtype=torch.float64))
        elif isinstance(value, torch.Tensor) and value.numel():
            peaks.append(value.abs().max().double())
    return {"peak": torch.stack(peaks).max().item() if peaks else 0.0}
