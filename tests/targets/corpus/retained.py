"""What an answer or a monitor keeps alive."""

import collections

import torch


def attached_norm(parameters):
    """Total norm as a tensor, for a gradient penalty: under create_graph=True it carries the graph."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.zeros((), dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads]))


class GradientArchive:
    """Keeps every step's gradients, for a plot that somebody once wanted."""

    def __init__(self):
        self.steps = []

    def record(self, parameters):
        grads = [p.grad.detach() for p in parameters if p.grad is not None]
        self.steps.append(grads)
        return (
            torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
            if grads
            else 0.0
        )


class NormHistory:
    """Keeps the last 32 norms, as numbers."""

    def __init__(self):
        self.norms = collections.deque(maxlen=32)

    def record(self, parameters):
        grads = [p.grad.detach() for p in parameters if p.grad is not None]
        norm = (
            torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
            if grads
            else 0.0
        )
        self.norms.append(norm)
        return norm
