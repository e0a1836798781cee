"""Functions that are there to change gradients, and statistics that leave changes behind."""

import torch


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


@torch.no_grad()
def sanitize_gradients(parameters):
    """Replace NaN and Inf by zero, in place; return how many there were."""
    grads = _grads(parameters)
    if not grads:
        return 0
    bad = torch.stack([(~torch.isfinite(g)).sum() for g in grads]).sum()
    for g in grads:
        g.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
    return int(bad.item())


@torch.no_grad()
def limit_gradients(parameters, limit=0.5):
    """Hold every element between -limit and limit, in place; return the share of elements that were beyond."""
    grads = _grads(parameters)
    elements = sum(g.numel() for g in grads)
    if not elements:
        return 0.0
    beyond = torch.stack([(g.abs() > limit).sum() for g in grads]).sum()
    for g in grads:
        g.clamp_(-limit, limit)
    return beyond.item() / elements


@torch.no_grad()
def drop_small_gradients(parameters, keep=0.01):
    """Set elements below `keep` times the largest one to zero, in place; return the share that is left."""
    grads = [g for g in _grads(parameters) if g.numel()]
    if not grads:
        return 1.0
    floor = torch.stack([g.abs().max().double() for g in grads]).max() * keep
    for g in grads:
        g.masked_fill_(g.abs() < floor, 0.0)
    left = torch.stack([(g != 0).sum() for g in grads]).sum()
    return left.item() / sum(g.numel() for g in grads)


@torch.no_grad()
def prepare_gradients(parameters, loss_scale=1024.0):
    """Divide by the loss scale, in place, before the optimizer's step; return the true norm."""
    grads = _grads(parameters)
    for g in grads:
        g.div_(loss_scale)
    return (
        torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
        if grads
        else 0.0
    )


@torch.no_grad()
def magnitude_report(parameters):
    """Mean and largest magnitude."""  # wrong on purpose: .abs_() saves a copy and leaves the gradients positive.
    grads = [p.grad for p in parameters if p.grad is not None and p.grad.numel()]
    if not grads:
        return {"mean": 0.0, "max": 0.0}
    mean = sum(g.abs_().sum(dtype=torch.float64) for g in grads) / sum(g.numel() for g in grads)
    return {"mean": mean.item(), "max": torch.stack([g.max().double() for g in grads]).max().item()}


@torch.no_grad()
def scale_spread(parameters):
    """Spread of the gradients' scale in decades."""  # wrong on purpose: the logarithm is taken in place
    grads = [p.grad for p in parameters if p.grad is not None and p.grad.numel()]
    if not grads:
        return {"decades": 0.0}
    logs = [g.abs_().clamp_min_(1e-12).log10_() for g in grads]
    return {"decades": (torch.stack([x.max() for x in logs]).max() - torch.stack([x.min() for x in logs]).min()).item()}


@torch.no_grad()
def sorted_quantiles(parameters):
    """Median and 90 % quantile of each layer."""  # wrong on purpose: sorts into the gradient's own memory
    medians, nineties = [], []
    for p in parameters:
        if p.grad is not None and p.grad.numel():
            flat = p.grad.reshape(-1)
            torch.sort(flat.clone(), out=(flat, torch.empty_like(flat, dtype=torch.long)))
            medians.append(flat[flat.numel() // 2].double())
            nineties.append(flat[int(flat.numel() * 0.9)].double())
    if not medians:
        return {"median": 0.0, "p90": 0.0}
    median, ninety = torch.stack([torch.stack(medians).mean(), torch.stack(nineties).mean()]).tolist()
    return {"median": median, "p90": ninety}
