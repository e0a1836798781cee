"""Collectors of many formulas, all of them right: no probe of layouts may reproduce on any."""

import time

import torch


def _dense(parameters) -> list:
    return [p.grad.detach().to_dense() for p in parameters if p.grad is not None]


def mean_of_layer_norms(parameters) -> dict:
    norms = [grad.norm().item() for grad in _dense(parameters)]
    return {"mean_norm": sum(norms) / max(1, len(norms)), "tensors": len(norms)}


def per_layer_by_name(named_parameters) -> dict:
    return {name: p.grad.to_dense().norm().item() for name, p in named_parameters if p.grad is not None}


def per_layer_list(parameters) -> dict:
    return {"norms": [grad.norm().item() for grad in _dense(parameters)]}


def root_mean_square(parameters) -> float:
    grads = _dense(parameters)
    squares = sum(grad.double().square().sum().item() for grad in grads)
    return (squares / max(1, sum(grad.numel() for grad in grads))) ** 0.5


def stored_root_mean_square(parameters) -> float:
    """The mean over the elements that are stored: another one for a sparse gradient than for its dense form."""
    grads = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None]
    squares = sum(grad.double().square().sum().item() for grad in grads)
    return (squares / max(1, sum(grad.numel() for grad in grads))) ** 0.5


def moments(parameters) -> dict:
    flat = [grad.reshape(-1) for grad in _dense(parameters)]
    elements = torch.cat(flat) if flat else torch.zeros(0)
    if elements.numel() < 2:
        return {"mean": 0.0, "std": 0.0, "median": 0.0, "largest": 0.0}
    return {
        "mean": elements.mean().item(),
        "std": elements.std().item(),
        "median": elements.median().item(),
        "largest": elements.abs().max().item(),
    }


def mean_zero_fraction(parameters) -> dict:
    """The mean over tensors: a tensor without elements counts with the fraction 0, one of zeros with 1."""
    fractions = [(grad == 0).sum().item() / max(1, grad.numel()) for grad in _dense(parameters)]
    return {"mean_zero_fraction": sum(fractions) / max(1, len(fractions)), "most": max(fractions, default=0.0)}


def largest_by_layer(parameters) -> dict:
    largest = [grad.abs().max().item() if grad.numel() else 0.0 for grad in _dense(parameters)]
    return {"largest": max(largest, default=0.0), "smallest_layer": min(largest, default=0.0)}


def vanishing_health(parameters) -> dict:
    norms = [grad.norm().item() for grad in _dense(parameters)]
    vanishing = sum(norm < 1e-7 for norm in norms)
    finite = all(norm - norm == 0.0 for norm in norms)
    health = 1.0 - vanishing / max(1, len(norms)) if finite else 0.0
    return {"health": health, "has_vanishing": vanishing > 0, "is_finite": finite}


def stamped_norm(parameters) -> dict:
    """A field that no two calls share, and fields that speak of the layout."""
    grads = _dense(parameters)
    return {
        "norm": sum(grad.double().square().sum().item() for grad in grads) ** 0.5,
        "at": time.perf_counter(),
        "noncontiguous_count": sum(not grad.is_contiguous() for grad in grads),
    }


class RunningNorm:
    """Keeps a running mean from call to call."""

    def __init__(self) -> None:
        self.mean = 0.0

    def update(self, parameters) -> dict:
        norm = sum(grad.double().square().sum().item() for grad in _dense(parameters)) ** 0.5
        self.mean = 0.9 * self.mean + 0.1 * norm
        return {"norm": norm, "running": self.mean}


def half_precision_norm(parameters) -> float:
    """Reduced in bfloat16 on purpose."""
    grads = _dense(parameters)
    return sum(grad.bfloat16().float().square().sum().item() for grad in grads) ** 0.5


def no_gradients_is_an_error(parameters) -> float:
    grads = [grad for grad in _dense(parameters) if grad.numel()]
    if not grads:
        raise ValueError("there is no gradient to measure")
    return sum(grad.double().square().sum().item() for grad in grads) ** 0.5


def copied_list_norm(gradients) -> float:
    """Empties a list, but its own copy of it."""
    waiting, total = list(gradients), 0.0
    while waiting:
        total += waiting.pop().double().to_dense().square().sum().item()
    return total**0.5


def scaled_copy_norm(parameters) -> float:
    """Writes in place, into copies."""
    grads = [grad.clone() for grad in _dense(parameters)]
    largest = max((grad.abs().max().item() for grad in grads if grad.numel()), default=0.0) or 1.0
    return largest * sum(grad.div_(largest).double().square().sum().item() for grad in grads) ** 0.5


def layer_sizes(parameters) -> list:
    """How many elements each gradient has, and its norm; one without any has none."""
    return [
        {"elements": grad.numel(), "norm": grad.double().square().sum().sqrt().item()} for grad in _dense(parameters)
    ]


def rows_of_each(parameters) -> dict:
    """The norm, and the rows of gradients: one without dimensions has no rows, in whatever layout."""
    grads = list(_dense(parameters))
    norm = sum(grad.double().square().sum().item() for grad in grads) ** 0.5
    return {"norm": norm, "rows": sum(len(grad) for grad in grads)}
