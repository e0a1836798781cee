"""Collectors that answer only part of what is asked, or in memory that torch's allocator does not see."""

import math

import numpy as np
import torch


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


def float32_only(parameters):
    """A sound norm that refuses every other dtype."""
    grads = _grads(parameters)
    if any(grad.dtype is not torch.float32 for grad in grads):
        raise TypeError("only float32 gradients")
    return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)).norm().item()


def numpy_copy(parameters):
    """Copies every gradient to float64, in NumPy's memory."""
    copies = [grad.float().numpy().astype(np.float64) for grad in _grads(parameters)]
    return math.sqrt(sum(float((copy.ravel() ** 2).sum()) for copy in copies))


def float_copies(parameters):
    """A float32 copy of every gradient, all at once: of float32 gradients, none."""
    copies = [grad.float() for grad in _grads(parameters)]
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(copies))).item()
