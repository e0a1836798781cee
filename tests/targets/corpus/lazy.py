"""Answers that are computed where they are read."""

import functools

import torch


class LazyStats:
    """Holds layer norms on the device; the properties read them back, one at a time."""

    def __init__(self, norms):
        self._norms = norms

    @property
    def total_norm(self):
        return sum(n.item() ** 2 for n in self._norms) ** 0.5

    @property
    def largest(self):
        return max((n.item() for n in self._norms), default=0.0)


class OneRead:
    """Holds layer norms on the device, and reads all of them once, when first asked."""

    def __init__(self, norms):
        self._norms = norms

    @functools.cached_property
    def _values(self):
        return torch.stack(self._norms).tolist() if self._norms else []

    @property
    def total_norm(self):
        return sum(v * v for v in self._values) ** 0.5

    @property
    def largest(self):
        return max(self._values, default=0.0)


def _norms(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return list(torch._foreach_norm(grads, 2, dtype=torch.float64)) if grads else []


def lazy_stats(parameters):
    """Statistics without a wait, says the changelog; each property waits once for each layer."""
    return LazyStats(_norms(parameters))


def once_read_stats(parameters):
    """The same with one read for all properties."""
    return OneRead(_norms(parameters))
