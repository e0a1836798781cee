"""Code that was written for one GPU and says so in its own ways."""

import torch


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


def to_zero_norm(parameters):
    """Total norm on `.to(0)`, the first GPU; one read."""
    grads = _grads(parameters)
    if not grads:
        return 0.0
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack([n.to(0) for n in norms])).item()


def current_device_norm(parameters):
    """Total norm in an accumulator on torch.cuda.current_device(); one read."""
    total = torch.zeros((), device=torch.cuda.current_device(), dtype=torch.float64)
    for g in _grads(parameters):
        total += torch.linalg.vector_norm(g, dtype=torch.float64).square()
    return total.sqrt().item()


def typed_constructor_norm(parameters):
    """Largest layer norm in a torch.cuda.DoubleTensor, as in code of 2018; one read."""
    total = torch.cuda.DoubleTensor(1).zero_()
    for g in _grads(parameters):
        total = torch.maximum(total, torch.linalg.vector_norm(g, dtype=torch.float64))
    return total.item()


def literal_cuda_norm(parameters):
    """Total norm in an accumulator with device="cuda", squared in float32; one read."""
    total = torch.zeros((), device="cuda")
    for g in _grads(parameters):
        total += g.float().pow(2).sum()
    return total.sqrt().item()


def literal_cuda_counts(parameters):
    """NaN and Inf counts in accumulators with device="cuda"; read at every tensor."""
    counts = torch.zeros(2, device="cuda", dtype=torch.long)
    found = 0
    for g in _grads(parameters):
        counts[0] += torch.isnan(g).sum()
        counts[1] += torch.isinf(g).sum()
        if counts.sum().item() > found:
            found = int(counts.sum().item())
    return {"nan_count": int(counts[0].item()), "inf_count": int(counts[1].item()), "bad": found}


def literal_host_norm(parameters):
    """Total norm, squared on the host: every gradient travels with device="cpu"."""
    total = torch.zeros((), device="cpu", dtype=torch.float64)
    for g in _grads(parameters):
        total += g.to(device="cpu", dtype=torch.float64).square().sum()
    return total.sqrt().item()


class _Accelerator:
    """A package's own view of the machine, made when it is imported."""

    def __init__(self):
        self.kind = "cuda" if torch.cuda.is_available() else "cpu"

    def current_device_name(self):
        return self.kind


_accelerator = _Accelerator()


def get_accelerator():
    return _accelerator


def accelerators_norm(parameters):
    """Total norm on the device that the package chose for all; one read."""
    norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in _grads(parameters)]
    if not norms:
        return 0.0
    moved = [norm.to(get_accelerator().current_device_name()) for norm in norms]
    return torch.linalg.vector_norm(torch.stack(moved)).item()
