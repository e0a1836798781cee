"""Collectors of many forms, all of them right: no probe of inputs may reproduce on any."""

import math

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


def norm_by_name(named_parameters) -> dict:
    """One entry for each gradient: none without any."""
    return {name: p.grad.double().norm().item() for name, p in named_parameters if p.grad is not None}


# --- for a generator -------------------------------------------------------------------------------


def wants_a_list(parameters: "list[nn.Parameter]") -> dict:
    return {"norm": math.hypot(*_norms(parameters)), "parameters": len(parameters)}


def refuses_a_generator(parameters) -> float:
    if not isinstance(parameters, (list, tuple)):
        raise TypeError("a list of parameters, please")
    return math.hypot(*_norms(parameters))


def only_an_iterator(parameters) -> float:
    total = 0.0
    while (parameter := next(parameters, None)) is not None:
        total += 0.0 if parameter.grad is None else parameter.grad.double().square().sum().item()
    return total**0.5


# --- for missing gradients -----------------------------------------------------------------------------


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


def refuses_zeros(parameters) -> dict:
    norms = _norms(parameters)
    if norms and not all(norms):
        raise ValueError("a zero gradient has no direction")
    return {"norm": math.hypot(*norms), "spread": max(norms) / min(norms) if norms else 1.0}


def mean_of_buffers(params) -> float:
    norms = [p.main_grad.norm().item() for p in params]
    return sum(norms) / max(1, len(norms))


def buffers_of_the_frozen(parameters) -> float:
    """Parameters of the program have a buffer where they have no gradient."""
    return math.hypot(*[(p.grad if p.grad is not None else p.buffer).norm().item() for p in parameters])
