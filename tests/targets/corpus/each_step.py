"""Norms that are kept for a step, as several loggers ask for one; and those that are kept for too long."""

import torch


def _norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()


class StepNorm:
    """Total norm of a step, computed once for all who log it."""

    def __init__(self):
        self._step = None
        self._norm = 0.0

    def norm_at(self, parameters, step):
        if step != self._step:
            self._step, self._norm = step, _norm(parameters)
        return self._norm


_OF_STEP = {}


def norm_of_step(model, global_step):
    """Total norm of a step; what earlier steps had is forgotten."""
    key = (id(model), global_step)
    if key not in _OF_STEP:
        _OF_STEP.clear()
        _OF_STEP[key] = _norm(model.parameters())
    return _OF_STEP[key]


_OF_MODEL = {}


def norm_of_first_step(model, global_step):
    """Total norm of a step."""  # wrong on purpose: the step is no part of the key
    if len(_OF_MODEL) > 8:
        _OF_MODEL.clear()
    if model not in _OF_MODEL:
        _OF_MODEL[model] = (global_step, _norm(model.parameters()))
    return _OF_MODEL[model][1]


class IntervalNorm:
    """Total norm, computed at each tenth step; in between it is that of the last one."""

    def __init__(self):
        self._norm = None

    def update(self, parameters, step):
        if self._norm is None or step % 10 == 0:
            self._norm = _norm(parameters)
        return self._norm
