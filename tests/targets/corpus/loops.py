"""Loops that wait for the device at every turn, in shapes that a reader of syntax may miss."""

import torch


def enumerated_norm(model):
    """The loop is wrapped twice."""
    total = 0.0
    for _, (_, p) in enumerate(sorted(model.named_parameters(), key=lambda item: item[0])):
        if p.grad is not None:
            total += p.grad.double().norm().item() ** 2
    return total**0.5


def popped_norm(parameters):
    """A while over a stack of gradients."""
    grads = [p.grad for p in parameters if p.grad is not None]
    total = 0.0
    while grads:
        g = grads.pop()
        total += g.double().norm().item() ** 2
    return total**0.5


def matched_states(parameters):
    """A match on a tensor's value."""
    states = {"dead": 0, "alive": 0}
    for p in parameters:
        if p.grad is None:
            continue
        match p.grad.count_nonzero().item():
            case 0:
                states["dead"] += 1
            case _:
                states["alive"] += 1
    return states


def seen_peaks(parameters):
    """Membership compares tensors, one wait for each comparison."""
    seen = []
    for p in parameters:
        if p.grad is not None and p.grad.numel():
            peak = p.grad.abs().max()
            if peak not in seen:
                seen.append(peak)
    return {"distinct_peaks": len(seen)}


def live_means(parameters):
    """A mask's size is known to the device alone."""
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            live = p.grad[p.grad != 0]
            total = total + live.double().abs().sum()
    return {"live": float(total)}
