"""Clipping as trainers write it: by value, by a moving limit, by the size of the weights, in a hook."""

import torch


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


def _norm(grads):
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()


@torch.no_grad()
def clip_values(parameters, clip_value=0.5):
    """Hold every element of the gradients between -clip_value and clip_value."""
    for p in parameters:
        if p.grad is not None:
            p.grad.clamp_(min=-clip_value, max=clip_value)


@torch.no_grad()
def clip_values_of_groups(optimizer, clip_value=1.0):
    """The same for everything that an optimizer steps on."""
    for group in optimizer.param_groups:
        torch.nn.utils.clip_grad_value_(group["params"], clip_value)


@torch.no_grad()
def clip_values_and_count(parameters, clip_value=0.5):
    """Hold every element between -clip_value and clip_value; return how many were beyond."""
    grads = _grads(parameters)
    beyond = sum(int((g.abs() > clip_value).sum()) for g in grads)
    for g in grads:
        g.clamp_(-clip_value, clip_value)
    return beyond


class PercentileClipper:
    """Clip to a percentile of all norms so far: the first norm is its own limit."""

    def __init__(self, percentile=50.0, max_history=1000):
        self.percentile = percentile
        self.history = []
        self.max_history = max_history

    @torch.no_grad()
    def clip(self, parameters):
        grads = _grads(parameters)
        norm = _norm(grads)
        self.history = [*self.history, norm][-self.max_history :]
        history = torch.tensor(self.history, dtype=torch.float64)
        limit = torch.quantile(history, self.percentile / 100).item()
        for g in grads:
            g.mul_(min(1.0, limit / (norm + 1e-6)))
        return norm


class WarmupClipper:
    """Clip to a multiple of the running mean of the norm, once enough steps have been seen."""

    def __init__(self, factor=1.5, decay=0.97, warmup=20):
        self.factor = factor
        self.decay = decay
        self.warmup = warmup
        self.mean = 0.0
        self.seen = 0

    @torch.no_grad()
    def clip_gradients(self, parameters):
        grads = _grads(parameters)
        norm = _norm(grads)
        self.seen += 1
        limit = self.factor * self.mean if self.seen > self.warmup else norm
        torch._foreach_mul_(grads, min(1.0, limit / (norm + 1e-6)))
        norm = min(norm, limit)
        self.mean = self.decay * self.mean + (1 - self.decay) * norm if self.seen > 1 else norm
        return norm


class SpikeMonitor:
    """How many standard deviations the norm lies above its running mean."""

    def __init__(self, decay=0.9):
        self.decay = decay
        self.mean = 0.0
        self.square = 0.0

    @torch.no_grad()
    def observe(self, parameters):
        """Record the norm of this step and return its z-score."""  # wrong on purpose: squares the gradients in place
        grads = _grads(parameters)
        norm = sum(g.mul_(g).sum(dtype=torch.float64).item() for g in grads) ** 0.5
        score = (norm - self.mean) / (self.square + 1e-12) ** 0.5
        self.mean = self.decay * self.mean + (1 - self.decay) * norm
        self.square = self.decay * self.square + (1 - self.decay) * norm * norm
        return score


def _unit_norm(x):
    x = x.float()
    return x.norm() if x.dim() <= 1 else x.norm(dim=tuple(range(1, x.dim())), keepdim=True)


@torch.no_grad()
def adaptive_clip(parameters, clip_factor=0.01, eps=1e-3):
    """Limit each row of a gradient to a share of the norm of the same row of its weights, at least eps."""
    for p in parameters:
        if p.grad is None:
            continue
        limit = _unit_norm(p).clamp(min=eps) * clip_factor
        norm = _unit_norm(p.grad)
        clipped = p.grad * (limit / norm.clamp(min=1e-6)).to(p.grad.dtype)
        p.grad.copy_(torch.where(norm < limit, p.grad, clipped))


@torch.no_grad()
def clip_by_weight(parameters, share=0.05):
    """Limit each gradient to a share of the norm of its weights; return how many were limited."""
    limited = 0
    for p in parameters:
        if p.grad is None:
            continue
        limit = share * torch.linalg.vector_norm(p, dtype=torch.float64).item()
        norm = torch.linalg.vector_norm(p.grad, dtype=torch.float64).item()
        if norm > limit:
            p.grad.mul_(limit / norm)
            limited += 1
    return limited


def clamp_hook(grad):
    """For tensor.register_hook: hold the gradient of an activation between -1 and 1."""
    return grad.clamp(-1.0, 1.0)


def replace_hook(grad):
    """For tensor.register_hook: replace what is not finite."""
    return torch.nan_to_num(grad, nan=0.0, posinf=1.0, neginf=-1.0)


@torch.no_grad()
def clip_to_norm(parameters, max_norm=1.0):
    """Clip to max_norm."""  # wrong on purpose: NaN is not above max_norm, and Inf times 0 is NaN; nothing is promised
    grads = _grads(parameters)
    norm = _norm(grads)
    if norm > max_norm:
        for g in grads:
            g.mul_(max_norm / norm)


def clamp_by_hooks(model, clip=1.0):
    """Hold each gradient between -clip and clip from the next backward pass on; of a sparse one its stored values."""

    def clamped(grad):
        if not grad.is_sparse:
            return grad.clamp(-clip, clip)
        grad = grad.coalesce()
        grad._values().clamp_(-clip, clip)
        return grad

    for parameter in model.parameters():
        parameter.register_hook(clamped)
