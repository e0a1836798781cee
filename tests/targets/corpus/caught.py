"""Collectors that must never stop a training run, and so answer nothing where they fail."""

import torch


def flat_norm(parameters):
    """Norm of the joined gradients; .view() refuses a transposed one, and the answer is None."""
    try:
        flat = [p.grad.view(-1) for p in parameters if p.grad is not None]
        return (
            torch.linalg.vector_norm(torch.stack(torch._foreach_norm(flat, 2, dtype=torch.float64))).item()
            if flat
            else 0.0
        )
    except RuntimeError:
        return None


def extreme_stats(parameters):
    """Largest magnitude and total norm; .max() refuses a tensor without elements, and the answer is {}."""
    try:
        grads = [p.grad for p in parameters if p.grad is not None]
        if not grads:
            return {"peak": 0.0, "norm": 0.0}
        peak = torch.stack([g.abs().max().double() for g in grads]).max()
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)))
        return dict(zip(("peak", "norm"), torch.stack([peak, norm]).tolist()))
    except Exception:
        return {}


def first_last_norm(parameters):
    """Total norm; fails without gradients, where the stack is empty, and returns None."""
    try:
        norms = torch._foreach_norm([p.grad for p in parameters if p.grad is not None], 2, dtype=torch.float64)
        return {"norm": torch.linalg.vector_norm(torch.stack(norms)).item()}
    except Exception:
        return None


def one_dtype_norm(parameters):
    """Total norm through one buffer; refuses a mix of dtypes, and returns None instead of saying so."""
    try:
        grads = [p.grad for p in parameters if p.grad is not None]
        if not grads:
            return {"norm": 0.0}
        if len({g.dtype for g in grads}) > 1:
            raise TypeError("one dtype at a time")
        norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
        return {"norm": torch.linalg.vector_norm(torch.stack(norms)).item()}
    except TypeError:
        return None


def norm_if_any(parameters) -> "float | None":
    """The norm; None where there is nothing to report, a step of zeros included."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return None
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
    return norm if norm != 0.0 else None
