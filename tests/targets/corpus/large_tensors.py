"""Norms that are right for small tensors and drift for large ones."""

import numpy as np
import torch


def column_sum_norm(parameters):
    """Total norm through NumPy: squares added up row after row in 16 float32 columns."""
    total = 0.0
    for p in parameters:
        if p.grad is None:
            continue
        flat = p.grad.detach().float().cpu().numpy().ravel()
        padded = np.zeros(-(-flat.size // 16) * 16, dtype=np.float32)
        padded[: flat.size] = flat
        total += float((padded * padded).reshape(-1, 16).sum(axis=0).astype(np.float64).sum())
    return total**0.5


def running_sum_norm(parameters):
    """Total norm through NumPy: one running float32 sum of all squares, kept for a plot of where the norm comes from."""
    total = 0.0
    for p in parameters:
        if p.grad is not None and p.grad.numel():
            flat = p.grad.detach().float().cpu().numpy().ravel()
            total += float(np.cumsum(flat * flat, dtype=np.float32)[-1])
    return total**0.5


def chunked_norm(parameters):
    """Total norm from float32 sums of 65,536 elements, added up in float64."""
    total = torch.zeros((), dtype=torch.float64)
    for p in parameters:
        if p.grad is not None:
            for chunk in p.grad.detach().reshape(-1).split(65536):
                total = total.to(chunk.device) + torch.linalg.vector_norm(chunk.float()).double().square()
    return total.sqrt().item()
