"""Answers of an earlier step, given again for new gradients."""

import functools

import torch


def _norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return (
        torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
        if grads
        else 0.0
    )


@functools.lru_cache(maxsize=1)
def cached_norm(model):
    """Total norm, asked three times a step by three loggers, so it is cached; modules hash by identity."""
    return _norm(model.parameters())


class StepMonitor:
    """Total norm of the step, computed at the first question; nobody ever clears it."""

    def __init__(self):
        self._norm = None

    def total_norm(self, parameters):
        if self._norm is None:
            self._norm = _norm(parameters)
        return self._norm


class SharedMonitor:
    """Total norm, shared by all monitors of a process: it is an attribute of the class."""

    norm = None

    def total_norm(self, parameters):
        if SharedMonitor.norm is None:
            SharedMonitor.norm = _norm(parameters)
        return SharedMonitor.norm


def norm_of_first_call(parameters):
    """Total norm, an attribute of the function."""
    if not hasattr(norm_of_first_call, "norm"):
        norm_of_first_call.norm = _norm(parameters)
    return norm_of_first_call.norm


_BY_MODEL = {}


def remembered_norm(model):
    """Total norm, remembered for each model."""
    key = id(model)
    if key not in _BY_MODEL:
        if len(_BY_MODEL) > 4:
            _BY_MODEL.clear()
        _BY_MODEL[key] = (model, _norm(model.parameters()))
    return _BY_MODEL[key][1]


_PER_SHAPE = {}


def norm_by_shape(parameters):
    """Total norm, remembered for each list of shapes: the very first answer stands for ever."""
    parameters = list(parameters)
    key = tuple(tuple(p.shape) for p in parameters)
    return _PER_SHAPE.setdefault(key, _norm(parameters))
