"""Collectors with one defect each; the line that a probe must name ends in `# here`."""

import torch
from torch import nn


def _grads(parameters) -> list:
    return [p.grad for p in parameters if p.grad is not None]


def _norm(grads: list) -> float:
    return sum(grad.detach().to_dense().double().square().sum().item() for grad in grads) ** 0.5


# --- write to what they should read ----------------------------------------------------------------


def halves_in_place(parameters) -> float:
    grads = _grads(parameters)
    for grad in grads:
        grad.detach().mul_(0.5)  # here
    return _norm(grads)


def writes_through_data(parameters) -> float:
    grads = _grads(parameters)
    norm = _norm(grads)
    for grad in grads:
        grad.data.add_(1e-8)  # here
    return norm


def removes_gradients(parameters) -> float:
    total = 0.0
    for parameter in parameters:
        if parameter.grad is not None:
            total += _norm([parameter.grad]) ** 2
            parameter.grad = None  # here
    return total**0.5


def limits_large_ones(parameters) -> float:
    grads = _grads(parameters)
    norm = _norm(grads)
    if norm > 1e5:
        grads[0].detach()[0] = 0.0  # here
    return norm


def decays_weights(parameters) -> float:
    listed = list(parameters)
    for parameter in listed:
        parameter.data.add_(1.0)  # here
    return _norm(_grads(listed))


def fills_missing(parameters) -> float:
    listed = list(parameters)
    for parameter in listed:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)  # here
    return _norm(_grads(listed))


def detaches_in_place(parameters) -> float:
    grads = [grad.detach_() for grad in _grads(parameters)]  # here
    return _norm(grads)


def freezes(module: nn.Module) -> float:
    norm = _norm(_grads(module.parameters()))
    module.requires_grad_(False)  # here
    return norm


def multiplies_by_one(parameters) -> float:
    grads = _grads(parameters)
    for grad in grads:
        grad.detach().mul_(1.0)  # here
    return _norm(grads)


def moves_gradients(parameters) -> float:
    grads = _grads(parameters)
    for grad in grads:
        grad.data = grad.data.clone()  # here
    return _norm(grads)


def empties_the_list(gradients) -> float:
    total = 0.0
    while gradients:
        total += _norm([gradients.pop()]) ** 2  # here
    return total**0.5


# --- read the memory and not the gradient ------------------------------------------------------------


def largest_row(parameters) -> dict:
    """Right only where rows lie one after the other."""
    grads = [grad.to_dense() for grad in _grads(parameters) if grad.numel()]
    largest = 0.0
    for grad in grads:
        columns = grad.numel() // grad.size(0) if grad.dim() else 1
        rows = torch.as_strided(grad, (grad.numel() // columns, columns), (columns, 1))  # here
        largest = max(largest, rows.norm(dim=1).max().item())
    return {"norm": _norm(grads), "largest_row": largest}


def reads_storage(parameters) -> float:
    total = 0.0
    for grad in _grads(parameters):
        memory = grad.detach().to_dense().untyped_storage()
        flat = torch.tensor([], dtype=grad.dtype).set_(memory)  # here
        total += flat.double().square().sum().item()
    return total**0.5


def clip_a_copy(parameters, limit: float = 1.0) -> float:
    """reshape() copies what is not contiguous, and the copy is clipped."""
    grads = _grads(parameters)
    norm = _norm(grads)
    for grad in grads:
        flat = grad.coalesce().values() if grad.is_sparse else grad.reshape(-1)
        flat.mul_(min(1.0, limit / (norm + 1e-6)))
    return norm


def refuses_strides(parameters) -> float:
    grads = _grads(parameters)
    if not all(grad.to_dense().is_contiguous() for grad in grads):
        raise ValueError("gradients must be contiguous")  # here
    return _norm(grads)


# --- count what is stored ------------------------------------------------------------------------------


def counts_stored_nans(parameters) -> dict:
    grads = [grad._values() if grad.is_sparse else grad for grad in _grads(parameters)]  # here
    nan_count = sum(torch.isnan(grad).sum().item() for grad in grads)
    return {"nan_count": int(nan_count)}


# --- take no elements for some -----------------------------------------------------------------------------


def largest_element(parameters) -> dict:
    grads = [grad.to_dense() for grad in _grads(parameters)]
    return {"norm": _norm(grads), "largest": max([grad.abs().max().item() for grad in grads], default=0.0)}  # here


def mean_of_means(parameters) -> dict:
    grads = [grad.to_dense() for grad in _grads(parameters)]
    means = [grad.abs().mean() for grad in grads]  # here
    return {"mean": torch.stack(means).mean().item() if means else 0.0}


def floors_each_norm(parameters) -> float:  # here
    """Every tensor counts with a norm of at least 1."""
    return sum(max(1.0, _norm([grad])) ** 2 for grad in _grads(parameters)) ** 0.5
