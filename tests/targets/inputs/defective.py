"""Collectors with one defect each; the line that a probe must name ends in `# here`."""

import math

import torch
from torch import nn


def _norms(parameters) -> list:
    return [p.grad.detach().to_dense().double().norm().item() for p in parameters if p.grad is not None]


# --- without gradients -----------------------------------------------------------------------------


def none_when_empty(parameters):
    norms = _norms(parameters)
    if not norms:
        return None  # here
    return {"norm": math.hypot(*norms), "largest": max(norms)}


def largest_of_nothing(parameters) -> dict:
    norms = _norms(parameters)
    return {"norm": math.hypot(*norms), "largest": max(norms)}  # here


def refuses_without_saying(parameters) -> float:
    norms = _norms(parameters)
    if not norms:
        raise RuntimeError("invalid state")  # here
    return math.hypot(*norms)


def forgets_a_group(host_parameters, seed_parameters) -> dict:
    host, seed = _norms(host_parameters), _norms(seed_parameters)
    if not seed:
        return {"host": math.hypot(*host)}  # here
    return {"host": math.hypot(*host), "seed": math.hypot(*seed)}


class LayerReport:
    """Number of layers and the mean of their norms, which raises where there are none."""

    def __init__(self, norms: list) -> None:
        self.norm = math.hypot(*norms)
        self._norms = norms

    @property
    def mean(self) -> float:
        return sum(self._norms) / len(self._norms)  # here


def layer_report(parameters) -> LayerReport:
    return LayerReport(_norms(parameters))


# --- for a generator -------------------------------------------------------------------------------


def asks_for_the_length(parameters) -> dict:
    return {"norm": math.hypot(*_norms(parameters)), "parameters": len(parameters)}  # here


def finds_no_largest(parameters) -> dict:
    norm, largest = math.hypot(*_norms(parameters)), 0.0
    for parameter in parameters:  # here
        if parameter.grad is not None:
            largest = max(largest, parameter.grad.to_dense().abs().max().item())
    return {"norm": norm, "largest": largest}


def clip_what_is_left(parameters, max_norm: float = 1.0) -> float:
    """The second loop over a generator finds nothing to clip."""
    norm = math.hypot(*[p.grad.double().norm().item() for p in parameters if p.grad is not None])
    for parameter in parameters:  # here
        if parameter.grad is not None:
            parameter.grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
    return norm


# --- for missing gradients -----------------------------------------------------------------------------


def counts_as_vanishing(parameters) -> dict:
    norms = [0.0 if p.grad is None else p.grad.to_dense().double().norm().item() for p in parameters]
    vanishing = sum(norm < 1e-7 for norm in norms)
    return {"norm": math.hypot(*norms), "vanishing": vanishing}  # here


def stops_at_the_first(parameters) -> float:
    total = 0.0
    for parameter in parameters:
        if parameter.grad is None:
            break
        total += parameter.grad.to_dense().double().square().sum().item()
    return total**0.5  # here


def mean_of_second_group(host_parameters, seed_parameters) -> dict:
    seed = list(seed_parameters)
    mean = sum(_norms(seed)) / max(1, len(seed))
    return {"host": math.hypot(*_norms(host_parameters)), "seed_mean": mean}  # here


def reads_unguarded(module: nn.Module) -> float:
    return math.hypot(*[p.grad.to_dense().double().norm().item() for p in module.parameters()])  # here


# --- for zeros -----------------------------------------------------------------------------------------


def spread(parameters) -> dict:
    norms = _norms(parameters)
    return {"norm": math.hypot(*norms), "spread": max(norms) / min(norms) if norms else 1.0}  # here


def signal_to_noise(parameters) -> dict:
    grads = [p.grad.to_dense().reshape(-1) for p in parameters if p.grad is not None]
    flat = torch.cat(grads) if grads else torch.zeros(0)
    if flat.numel() < 2:
        return {"norm": 0.0, "signal": 0.0}
    signal = flat.mean().abs() / flat.std()  # here
    return {"norm": flat.double().norm().item(), "signal": signal.item()}


def second_over_first(parameters, others) -> dict:  # here
    first, second = math.hypot(*_norms(parameters)), math.hypot(*_norms(others))
    return {"first": first, "second": second, "ratio": first / second if second else math.inf}
