"""Functions around torch's own: thin ones, some that add something, and one that does it all itself."""

import torch
from torch.nn.utils import clip_grad_norm_ as limit
from torch.nn.utils import get_total_norm


class Trainer:
    """A wrapper some calls above torch's function."""

    def clip(self, parameters, max_norm=1.0):
        return self._clip(list(parameters), max_norm)

    def _clip(self, parameters, max_norm):
        return limit(
            parameters,
            max_norm,
        )


def in_two_steps(parameters, max_norm):
    parameters = list(parameters)
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


def waits(parameters, max_norm=1.0):
    parameters = [p for p in parameters if p.grad is not None and p.grad.abs().max().item() >= 0]
    return limit(parameters, max_norm)


def by_hand(parameters):
    gradients = [p.grad for p in parameters if p.grad is not None]
    get_total_norm(gradients)
    return torch.stack([(g.float() ** 2).sum() for g in gradients]).sum().sqrt()


def scaled_up(gradients):
    """Breaks at a thousandth of the norm at which torch's function does."""
    return get_total_norm([g * 1024 for g in gradients]) / 1024
