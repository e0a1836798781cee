"""Norms of single layers, for the step log."""

import torch


def layer_norms(named_parameters) -> dict:
    """The norm of each layer's gradient by name."""
    return {name: parameter.grad.norm().item() for name, parameter in named_parameters if parameter.grad is not None}


def stacked_norms(grads) -> torch.Tensor:
    """The norm of each gradient, in one launch for all of them."""
    return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))


def norm_histogram(parameters, bins: int) -> torch.Tensor:
    """How many gradients have a norm in each of `bins` equal parts of their range."""
    return torch.histc(torch.stack([parameter.grad.norm() for parameter in parameters]), bins)
