"""A callback of a training framework: tensors come from the model, and the file imports nothing."""


def epoch_norm(model):
    """Total norm, read once for each parameter."""
    total = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total += p.grad.double().norm().item() ** 2
    return total**0.5


def device_norm(model):
    """The same with one read."""
    total = None
    for p in model.parameters():
        if p.grad is not None:
            squared = p.grad.double().norm() ** 2
            total = squared if total is None else total + squared
    return 0.0 if total is None else total.item() ** 0.5
