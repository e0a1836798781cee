"""A target that has put its own functions in the place of torch's: when it is imported, or when it is called."""

import torch

_isfinite = torch.isfinite


def at_import(parameters):
    return torch.stack([each.grad.double().norm() for each in parameters if each.grad is not None]).norm().item()


def in_the_call(parameters):
    torch.Tensor.isinf = lambda self: torch.zeros_like(self, dtype=torch.bool)
    return at_import(parameters)


def undone(parameters):
    kept, torch.Tensor.isnan = torch.Tensor.isnan, lambda self: torch.zeros_like(self, dtype=torch.bool)
    try:
        return at_import(parameters)
    finally:
        torch.Tensor.isnan = kept


torch.isfinite = lambda tensor: _isfinite(torch.zeros_like(tensor))
