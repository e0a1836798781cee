"""Collectors that name CUDA and do not run without it."""

import torch


def builds_on_cuda(gradients):
    total = torch.zeros((), device="cuda", dtype=torch.float64)
    for gradient in gradients:
        total += gradient.double().pow(2).sum()
    return total.sqrt().item()


def moves_to_number(parameters):
    device = torch.cuda.current_device()
    norms = [p.grad.to(device).norm() for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(norms)).item()


def old_constructor(gradients):
    total = torch.cuda.FloatTensor([0.0])
    for gradient in gradients:
        total = total + gradient.type("torch.cuda.FloatTensor").pow(2).sum()
    return total.sqrt().item()


def asserts_cuda(gradients):
    assert all(gradient.is_cuda for gradient in gradients)
    return float(torch.stack(torch._foreach_norm(gradients)).norm())


class Collector:
    def __init__(self):
        self.total = torch.zeros((), device="cuda:0")

    def collect(self, model):
        with torch.cuda.stream(torch.cuda.Stream()):
            squares = [p.grad.pow(2).sum() for p in model.parameters() if p.grad is not None]
        torch.cuda.synchronize()
        return {"norm": (self.total + sum(squares)).sqrt().item()}


def zero_on_cuda(parameters):
    """Norm of what there is, on its own device; of nothing a zero on CUDA."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.zeros((), device="cuda")
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
