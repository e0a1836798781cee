"""Statistics that write to what they read, and their neighbours that do not, or say so."""

import torch


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


def _norm(grads):
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()


@torch.no_grad()
def outlier_free_mean(parameters, bound=10.0):
    """Mean magnitude of the gradients, outliers held at the bound."""  # wrong on purpose: clamp_ stays
    grads = _grads(parameters)
    total = sum(g.clamp_(-bound, bound).abs().sum(dtype=torch.float64).item() for g in grads)
    return total / max(1, sum(g.numel() for g in grads))


@torch.no_grad()
def outlier_free_mean_of_copies(parameters, bound=10.0):
    """Mean magnitude of the gradients, outliers held at the bound."""
    grads = _grads(parameters)
    total = sum(g.clamp(-bound, bound).abs().sum(dtype=torch.float64).item() for g in grads)
    return total / max(1, sum(g.numel() for g in grads))


@torch.no_grad()
def grad_stats_bounded(parameters, limit=1.0):
    """Compute the norm and the largest magnitude of the gradients, of elements within the limit."""  # as above
    grads = _grads(parameters)
    for g in grads:
        g.clamp_(-limit, limit)
    largest = max((g.abs().max().item() for g in grads if g.numel()), default=0.0)
    return {"grad_norm": _norm(grads), "max": largest}


@torch.no_grad()
def log_magnitude(grad):
    """Collect the mean of the logarithm of the magnitude."""  # wrong on purpose: abs_ and clamp_ stay
    return grad.abs_().clamp_(min=1e-12).log().mean().item()


@torch.no_grad()
def unscaled_grad_norm(parameters, scale=1.0):
    """Compute the norm that the gradients have without the loss scale."""  # wrong on purpose: divides in place
    grads = _grads(parameters)
    for g in grads:
        g.div_(scale)
    return _norm(grads)


@torch.no_grad()
def grad_norm_of_scaled(parameters, scale=1.0):
    """Compute the norm that the gradients have without the loss scale."""
    return _norm(_grads(parameters)) / scale


@torch.no_grad()
def unscale_then_norm(parameters, scale=1.0):
    """Divide the gradients by the loss scale in place, and return their norm."""
    grads = _grads(parameters)
    for g in grads:
        g.div_(scale)
    return _norm(grads)


@torch.no_grad()
def average_gradients(parameters, world_size=1):
    """Divide what was added over the ranks by their number."""
    for g in _grads(parameters):
        g.div_(world_size)


@torch.no_grad()
def shifted_stats(parameters, offset=0.0):
    """Report the mean magnitude of the gradients beyond an offset."""  # wrong on purpose: sub_ stays
    grads = _grads(parameters)
    total = sum(g.sub_(offset).abs().sum(dtype=torch.float64).item() for g in grads)
    return {"mean": total / max(1, sum(g.numel() for g in grads))}
