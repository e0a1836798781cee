"""Health of gradients: a collector, its result, and a shortcut around both."""

from dataclasses import dataclass

import torch


@dataclass
class GradientHealth:
    """What a step's gradients look like."""

    grad_norm: float
    vanishing: int
    exploding: int

    def is_healthy(self) -> bool:
        """Whether no tensor's norm is out of bounds."""
        return self.vanishing == 0 and self.exploding == 0


class GradientCollector:
    """Counts the tensors whose norm is out of bounds."""

    def __init__(self, vanishing_norm: float = 1e-7, exploding_norm: float = 100.0):
        self.vanishing_norm = vanishing_norm
        self.exploding_norm = exploding_norm

    def collect(self, parameters) -> GradientHealth:
        """The health of all gradients, read back once."""
        norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float64) for p in parameters if p.grad is not None]
        if not norms:
            return GradientHealth(0.0, 0, 0)
        values = torch.stack(norms).tolist()
        vanishing = sum(value < self.vanishing_norm for value in values)
        exploding = sum(value > self.exploding_norm for value in values)
        return GradientHealth(sum(value * value for value in values) ** 0.5, vanishing, exploding)


def collect_gradients(parameters, vanishing_norm: float = 1e-7, exploding_norm: float = 100.0) -> GradientHealth:
    """The health of all gradients, with bounds of one's own."""
    return GradientCollector(vanishing_norm, exploding_norm).collect(parameters)
