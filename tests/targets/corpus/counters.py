"""Counts that a float32 scalar holds, beside one that an integer holds."""

import torch


def scalar_accumulator(parameters):
    """Zeros, counted exactly for each tensor and added up in a float32 scalar."""
    zeros = torch.zeros(())
    elements = 0
    for p in parameters:
        if p.grad is not None:
            zeros = zeros.to(p.grad.device) + (p.grad == 0).sum()
            elements += p.grad.numel()
    return {"zeros": zeros, "elements": elements}


def stacked_with_norm(parameters):
    """Zeros and the norm in one float32 tensor, for one read: the count is rounded on the way."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"norm": 0.0, "zeros": 0}
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)))
    zeros = torch.stack([(g == 0).sum() for g in grads]).sum()
    norm, zeros = torch.stack([norm.float(), zeros.float()]).tolist()
    return {"norm": norm, "zeros": int(zeros)}


def byte_sum(parameters):
    """Zeros of all tensors, added up in a byte: 257 are 1."""
    counts = [(p.grad == 0).sum() for p in parameters if p.grad is not None]
    return {"zeros": int(torch.stack(counts).sum(dtype=torch.uint8).item()) if counts else 0}


def integer_count(parameters):
    """Zeros as an int64."""
    counts = [(p.grad == 0).sum() for p in parameters if p.grad is not None]
    return {"zeros": int(torch.stack(counts).sum().item()) if counts else 0}
