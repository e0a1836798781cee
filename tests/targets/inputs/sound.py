"""Collectors of many forms, all of them right: no probe of inputs may reproduce on any."""

import math
import time
from dataclasses import dataclass

import torch
from torch import nn


def _grads(parameters) -> list:
    return [p.grad.detach().to_dense() for p in parameters if p.grad is not None]


def _norms(parameters) -> list:
    return [grad.double().norm().item() for grad in _grads(parameters)]


# --- without gradients -----------------------------------------------------------------------------


def refuses_in_words(parameters) -> dict:
    """Raises ValueError where there is no gradient."""
    norms = _norms(parameters)
    if not norms:
        raise ValueError("no gradients: call backward() first")
    return {"norm": math.hypot(*norms), "largest": max(norms)}


def optional_answer(parameters) -> dict | None:
    norms = _norms(parameters)
    return {"norm": math.hypot(*norms), "largest": max(norms)} if norms else None


@dataclass
class Summary:
    norm: float
    largest: "float | None"


def optional_field(parameters) -> Summary:
    norms = _norms(parameters)
    return Summary(math.hypot(*norms), max(norms, default=None))


def norm_by_name(named_parameters) -> dict:
    """One entry for each gradient: none without any."""
    return {name: p.grad.double().norm().item() for name, p in named_parameters if p.grad is not None}


def norm_and_list(parameters) -> dict:
    norms = _norms(parameters)
    return {"norm": math.hypot(*norms), "norms": norms}


# --- for a generator -------------------------------------------------------------------------------


def wants_a_list(parameters: "list[nn.Parameter]") -> dict:
    return {"norm": math.hypot(*_norms(parameters)), "parameters": len(parameters)}


def refuses_a_generator(parameters) -> float:
    if not isinstance(parameters, (list, tuple)):
        raise TypeError("a list of parameters, please")
    return math.hypot(*_norms(parameters))


def stamped(parameters) -> dict:
    """A field that no two calls share."""
    return {"norm": math.hypot(*_norms(parameters)), "at": time.perf_counter()}


def only_an_iterator(parameters) -> float:
    total = 0.0
    while (parameter := next(parameters, None)) is not None:
        total += 0.0 if parameter.grad is None else parameter.grad.double().square().sum().item()
    return total**0.5


def clip_listed(parameters, max_norm: float = 1.0) -> float:
    """Makes a list of the argument before it reads it twice."""
    grads = [p.grad for p in list(parameters) if p.grad is not None]
    norm = math.hypot(*[grad.double().norm().item() for grad in grads])
    for grad in grads:
        grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
    return norm


# --- for missing gradients -----------------------------------------------------------------------------


def mean_of_those_that_are_there(parameters) -> dict:
    norms = _norms(parameters)
    return {"mean": sum(norms) / max(1, len(norms)), "tensors": len(norms)}


def counts_the_frozen(parameters) -> dict:
    """How many parameters there are, and how many have no gradient: no field that the gradients' values move."""
    listed = list(parameters)
    norms = _norms(listed)
    return {"norm": math.hypot(*norms), "parameters": len(listed), "frozen": len(listed) - len(norms)}


def position_of_largest(parameters) -> dict:
    norms = [0.0 if p.grad is None else p.grad.double().norm().item() for p in parameters]
    return {"norm": math.hypot(*norms), "largest_at": norms.index(max(norms)) if norms else 0}


def refuses_frozen(parameters) -> float:
    listed = list(parameters)
    if any(p.grad is None for p in listed):
        raise ValueError("a parameter has no gradient")
    return math.hypot(*_norms(listed))


def norm_of_the_first(parameters) -> float:
    return next(iter(parameters)).grad.double().norm().item()


def takes_gradients(gradients) -> float:
    return math.hypot(*[grad.double().norm().item() for grad in gradients])


# --- for zeros -----------------------------------------------------------------------------------------


def log_norm(parameters) -> dict:
    """The logarithm of zero is minus infinity."""
    norm = math.hypot(*_norms(parameters))
    return {"norm": norm, "log_norm": math.log(norm) if norm else -math.inf}


def guarded_ratio(parameters, others) -> dict:
    first, second = math.hypot(*_norms(parameters)), math.hypot(*_norms(others))
    return {"first": first, "second": second, "ratio": second / (first + 1e-12)}


def refuses_zeros(parameters) -> dict:
    norms = _norms(parameters)
    if norms and not all(norms):
        raise ValueError("a zero gradient has no direction")
    return {"norm": math.hypot(*norms), "spread": max(norms) / min(norms) if norms else 1.0}


def always_infinite(parameters) -> dict:
    """A limit that nobody set is infinite for every input."""
    return {"norm": math.hypot(*_norms(parameters)), "limit": torch.inf}


def mean_of_buffers(params) -> float:
    norms = [p.main_grad.norm().item() for p in params]
    return sum(norms) / max(1, len(norms))
