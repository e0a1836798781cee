"""Checks as they stand before optimizer.step(): a truth value, a name, a flag beside a norm."""

import torch


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


def _norm(grads):
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()


@torch.no_grad()
def grads_ok(model):
    """Whether the optimizer may step."""  # wrong on purpose: biases and norms are not looked at
    return all(torch.isfinite(p.grad).all().item() for p in model.parameters() if p.grad is not None and p.dim() > 1)


@torch.no_grad()
def should_skip(parameters):
    """Whether this step is to be skipped."""  # wrong on purpose: looks at the first tensor alone
    grads = _grads(parameters)
    return bool(grads) and not torch.isfinite(grads[0]).all().item()


@torch.no_grad()
def may_step(parameters):
    """Whether the optimizer may step."""
    grads = _grads(parameters)
    return not grads or bool(torch.stack([torch.isfinite(g).all() for g in grads]).all())


@torch.no_grad()
def loop_says_bad(model):
    """Whether any gradient is NaN or Inf."""
    bad = False
    for p in model.parameters():
        if p.grad is not None and (torch.isnan(p.grad).any() or torch.isinf(p.grad).any()):
            bad = True
    return bad


@torch.no_grad()
def last_one_wins(model):
    """Whether any gradient is NaN or Inf."""  # wrong on purpose: each tensor overwrites what the one before said
    bad = False
    for p in model.parameters():
        if p.grad is not None:
            bad = bool((~torch.isfinite(p.grad)).any())
    return bad


@torch.no_grad()
def has_nan(parameters):
    """Whether any gradient is NaN."""
    return any(torch.isnan(g).any().item() for g in _grads(parameters))


@torch.no_grad()
def nan_names(model):
    """The names of the parameters whose gradient is NaN."""
    return [name for name, p in model.named_parameters() if p.grad is not None and torch.isnan(p.grad).any()]


@torch.no_grad()
def has_inf(parameters):
    """Whether any gradient is infinite."""
    return any(torch.isinf(g).any().item() for g in _grads(parameters))


@torch.no_grad()
def has_nonfinite(parameters):
    """Whether any gradient is NaN or Inf."""  # wrong on purpose: Inf is not NaN
    return any(torch.isnan(g).any().item() for g in _grads(parameters))


@torch.no_grad()
def grads_are_finite(parameters):
    """Whether all gradients are finite."""  # wrong on purpose: Inf equals itself
    total = sum(g.abs().sum(dtype=torch.float64) for g in _grads(parameters))
    return bool(total == total)


@torch.no_grad()
def norm_and_nan_flag(parameters):
    """Total norm, and whether it is NaN."""  # wrong on purpose: NaN equals nothing, not even NaN
    norm = _norm(_grads(parameters))
    return {"grad_norm": norm, "has_nan": norm == float("nan")}


@torch.no_grad()
def explosion_alarm(parameters, threshold=100.0):
    """Total norm, and whether training explodes."""  # wrong on purpose: NaN is not above the threshold
    norm = _norm(_grads(parameters))
    return {"grad_norm": norm, "exploding": norm > threshold}


@torch.no_grad()
def sound_explosion_alarm(parameters, threshold=100.0):
    """Total norm, and whether training explodes."""
    norm = _norm(_grads(parameters))
    return {"grad_norm": norm, "exploding": not norm <= threshold}


@torch.no_grad()
def norm_and_clipped(parameters, max_norm=1.0):
    """Total norm, and whether it will be clipped."""
    norm = _norm(_grads(parameters))
    return {"grad_norm": norm, "will_clip": norm > max_norm}


@torch.no_grad()
def count_bad(parameters, check):
    """How many gradients are not finite; 0 where nobody wants to know."""
    if not check:
        return 0
    return sum(not torch.isfinite(g).all().item() for g in _grads(parameters))


@torch.no_grad()
def finite_norm(parameters, check: bool | None):
    """Norm of the finite elements; raises for the others if the check is on."""
    grads = _grads(parameters)
    if check and not all(torch.isfinite(g).all().item() for g in grads):
        raise FloatingPointError("a gradient is not finite")
    return _norm([torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0) for g in grads])
