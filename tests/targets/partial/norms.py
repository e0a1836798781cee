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


def nan_when_tiny(parameters):
    """A norm that is lost below 1e-20, but not as a zero."""
    grads = _grads(parameters)
    norm = torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)).norm().item()
    return math.nan if norm < 1e-20 else norm


def numpy_copy(parameters):
    """Copies every gradient to float64, in NumPy's memory."""
    copies = [grad.float().numpy().astype(np.float64) for grad in _grads(parameters)]
    return math.sqrt(sum(float((copy.ravel() ** 2).sum()) for copy in copies))


def minus_one_when_nonfinite(parameters):
    """A norm that answers -1 for NaN and Inf: a code that no norm can be."""
    norm = torch.stack(torch._foreach_norm(_grads(parameters), 2, dtype=torch.float64)).norm().item()
    return norm if math.isfinite(norm) else -1.0


def whole_minus_one_when_nonfinite(parameters):
    """The same as an integer, as some write it."""
    norm = torch.stack(torch._foreach_norm(_grads(parameters), 2, dtype=torch.float64)).norm().item()
    return norm if math.isfinite(norm) else -1


def one_when_nonfinite(parameters):
    """The same with a code that a norm can be."""
    norm = torch.stack(torch._foreach_norm(_grads(parameters), 2, dtype=torch.float64)).norm().item()
    return norm if math.isfinite(norm) else 1.0


def float_copies(parameters):
    """A float32 copy of every gradient, all at once: of float32 gradients, none."""
    copies = [grad.float() for grad in _grads(parameters)]
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(copies))).item()


def zeros_in_float32(parameters):
    """A count, and nothing else."""
    return float(torch.stack([(grad == 0).sum().float() for grad in _grads(parameters)]).sum())


def clip_factor(parameters, max_norm=1.0):
    """What gradients are multiplied by: 0 where they are infinite."""
    norm = torch.stack(torch._foreach_norm(_grads(parameters))).norm().item()
    return min(1.0, max_norm / (norm + 1e-6))
