"""Collectors of every way to be fed. The package has no __init__.py: it is a namespace package."""

import torch
from torch import nn


def of_module(model: nn.Module) -> float:
    total = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total += p.grad.detach().norm(2).item() ** 2
    return total**0.5


def of_parameters(params) -> torch.Tensor:
    grads = [p.grad for p in params if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))


def of_named_parameters(items) -> dict:
    found = {}
    for name, p in items:
        if p.grad is None:
            continue
        found[name] = p.grad.norm().item()
    return found


def of_gradients(grads: list[torch.Tensor]) -> torch.Tensor:
    return sum(g.pow(2).sum() for g in grads).sqrt()


def has_bad_gradients(model):
    for p in model.parameters():
        if p.grad is not None and not torch.isfinite(p.grad).all():
            return True
    return False


def clipped(model, max_norm):
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)


def _total(tensors):
    return torch.stack([t.norm() for t in tensors]).norm()


def through_a_helper(parameters):
    return _total([p.grad for p in parameters if p.grad is not None])


def _private_and_unused(parameters):
    return max(p.grad.abs().max().item() for p in parameters)


def _exported_norm(parameters):
    return _total([p.grad for p in parameters])


def with_switch(parameters, detailed: bool = False):
    norms = [p.grad.norm().item() for p in parameters]
    if detailed:
        return {"norms": norms, "largest": max(norms)}
    return max(norms)


def printed(parameters):
    print(sum(p.grad.norm() for p in parameters))
