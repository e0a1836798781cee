"""Norms as good training code has them: no overflow, one read, nothing left behind."""

import torch


def _dense(g):
    """A gradient without its graph; of a sparse one the stored values, each place once."""
    g = g.detach()
    return g.coalesce().values() if g.is_sparse else g


def _grads(parameters):
    return [_dense(p.grad) for p in parameters if p.grad is not None]


def _total(grads):
    """The 2-norm in float64 on the first gradient's device."""
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack([n.to(norms[0].device) for n in norms]))


def total_norm(model: torch.nn.Module) -> float:
    """Total 2-norm of a model's gradients; 0.0 without any."""
    grads = _grads(model.parameters())
    return _total(grads).item() if grads else 0.0


def norm_on_device(parameters) -> torch.Tensor:
    """Total 2-norm as a float64 tensor; nothing is read."""
    grads = _grads(parameters)
    return _total(grads) if grads else torch.zeros((), dtype=torch.float64)


def rms(parameters) -> float:
    """Root mean square of all gradient elements; 0.0 where there is none."""
    grads = _grads(parameters)
    elements = sum(g.numel() for g in grads)
    return _total(grads).item() / elements**0.5 if elements else 0.0


def clip_by_norm(parameters, max_norm: float = 1.0) -> torch.Tensor:
    """Scale all gradients so that their norm is at most `max_norm`; the norm before. Refuses NaN and Inf.

    A 16-bit or tiny gradient may not survive the coefficient at once, so its square root is applied twice.
    """
    parameters = [p for p in parameters if p.grad is not None]
    for p in parameters:
        if p.grad.is_sparse:
            p.grad = p.grad.coalesce()  # the values of an uncoalesced gradient are a copy, which nobody would see
    grads = _grads(parameters)
    if not grads:
        return torch.zeros((), dtype=torch.float64)
    total = _total(grads)
    value = total.item()
    if value - value != 0.0:
        raise RuntimeError("the gradients' norm is not finite: skip this step")
    if value > max_norm:
        root = (max_norm / value) ** 0.5
        torch._foreach_mul_(grads, root)
        torch._foreach_mul_(grads, root)
    return total


def layer_norms(named_parameters) -> dict:
    """Each layer's norm by name, and the total, with one read."""
    named = [(name, _dense(p.grad)) for name, p in named_parameters if p.grad is not None]
    if not named:
        return {"total": 0.0, "layers": {}}
    norms = torch._foreach_norm([g for _, g in named], 2, dtype=torch.float64)
    norms = torch.stack([n.to(norms[0].device) for n in norms])
    *values, total = torch.cat([norms, torch.linalg.vector_norm(norms).reshape(1)]).tolist()
    return {"total": total, "layers": {name: value for (name, _), value in zip(named, values)}}


def peak_magnitude(parameters) -> float:
    """The largest magnitude of any element, the infinity norm; NaN where there is one."""
    grads = [g for g in _grads(parameters) if g.numel()]
    if not grads:
        return 0.0
    norms = torch._foreach_norm(grads, float("inf"))
    return torch.stack([n.to(norms[0].device, torch.float64) for n in norms]).max().item()


def norm_of_gradients(grads: list) -> float:
    """Total norm of bare gradients, as torch.autograd.grad returns them."""
    grads = [_dense(g) for g in grads if g is not None]
    return _total(grads).item() if grads else 0.0
