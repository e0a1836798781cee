"""Norms of single layers, for the step log."""

import torch


def layer_norms(named_parameters) -> dict:
    """The norm of each layer's gradient by name, read back once."""
    found = {name: parameter.grad for name, parameter in named_parameters if parameter.grad is not None}
    return dict(zip(found, stacked_norms(list(found.values())).tolist(), strict=True)) if found else {}


def stacked_norms(grads) -> torch.Tensor:
    """The norm of each gradient; in one launch for all of them where torch still has the private operator."""
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(grad, dtype=torch.float64) for grad in grads])
