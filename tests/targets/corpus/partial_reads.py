"""Checks that promise to look at every gradient, and look at some."""

import torch


def skips_biases(named_parameters):
    """Total norm of the gradients, and whether all of them are finite."""
    grads = [p.grad for name, p in named_parameters if p.grad is not None and p.grad.ndim > 1]
    if not grads:
        return {"norm": 0.0, "all_finite": True}
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
    return {"norm": norm, "all_finite": norm - norm == 0.0}


def skips_convolutions(parameters):
    """Whether all gradients are finite; made for an MLP, so three dimensions and more are passed over."""
    grads = [p.grad for p in parameters if p.grad is not None and p.grad.ndim <= 2]
    finite = torch.stack([torch.isfinite(g).all() for g in grads]).all().item() if grads else True
    return {"all_finite": bool(finite)}


def reads_first(parameters):
    """Whether the gradients are finite: returns from inside the loop."""
    for p in parameters:
        if p.grad is not None:
            return {"finite": bool(torch.isfinite(p.grad).all()), "peak": p.grad.abs().max().item()}
    return {"finite": True, "peak": 0.0}


def reads_last(parameters):
    """Whether the gradients are finite: each tensor overwrites what the one before it said."""
    finite, norm = True, 0.0
    for p in parameters:
        if p.grad is not None:
            norm = torch.linalg.vector_norm(p.grad, dtype=torch.float64).item()
            finite = norm - norm == 0.0
    return {"finite": finite, "norm": norm}


def large_tensors_only(parameters):
    """Whether all gradients are finite; tensors below 1,024 elements are not worth a launch."""
    grads = [p.grad for p in parameters if p.grad is not None and p.grad.numel() >= 1024]
    finite = torch.stack([torch.isfinite(g).all() for g in grads]).all().item() if grads else True
    return {"all_finite": bool(finite)}


def every_other_element(parameters):
    """Finite flag and mean magnitude from every other element, to halve the traffic."""
    samples = [p.grad.reshape(-1)[::2] for p in parameters if p.grad is not None]
    if not samples:
        return {"all_finite": True, "mean_magnitude": 0.0}
    flat = torch.cat([s.double() for s in samples])
    finite, mean = torch.stack([torch.isfinite(flat).all().double(), flat.nan_to_num(0, 0, 0).abs().mean()]).tolist()
    return {"all_finite": bool(finite), "mean_magnitude": mean}
