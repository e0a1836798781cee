"""Arguments that somebody has to choose; no choice that fits the signature makes these wrong."""

import torch


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


def norm_on(parameters, device):
    """Total norm, gathered on `device` (that of the gradients, or where the logger lives); one read."""
    grads = _grads(parameters)
    if not grads:
        return 0.0
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack([n.to(device) for n in norms])).item()


def clip_to(parameters, max_norm):
    """Scale the gradients to at most `max_norm` and return the norm before."""
    grads = _grads(parameters)
    if not grads:
        return torch.zeros((), dtype=torch.float64)
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    total = torch.linalg.vector_norm(torch.stack([n.to(norms[0].device) for n in norms]))
    # Two factors of one square root: a 16-bit gradient may not survive the whole coefficient at once.
    root = torch.clamp(max_norm / total.clamp_min(torch.finfo(torch.float64).tiny), max=1.0).sqrt()
    for g in grads:
        g.mul_(root.to(g.device)).mul_(root.to(g.device))
    return total


def layer_spread(parameters, eps):
    """Largest layer norm over the smallest one; `eps` (1e-8, say) keeps a dead layer from dividing by zero."""
    grads = _grads(parameters)
    if not grads:
        return {"spread": 1.0}
    norms = torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return {"spread": (norms.max() / (norms.min() + eps)).item()}


def norm_of_type(parameters, norm_type):
    """The p-norm of all gradients, in float64, where no usual power overflows."""
    grads = [g for g in _grads(parameters) if g.numel()]
    if not grads:
        return 0.0
    norms = [torch.linalg.vector_norm(g, norm_type, dtype=torch.float64) for g in grads]
    return torch.linalg.vector_norm(torch.stack(norms), norm_type).item()


def vanishing_layers(parameters, threshold):
    """How many layers have a norm below `threshold`, of how many, and the total norm."""
    grads = _grads(parameters)
    if not grads:
        return {"vanishing": 0, "layers": 0, "total_norm": 0.0}
    norms = torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    vanishing, total = torch.stack([(norms < threshold).sum().double(), torch.linalg.vector_norm(norms)]).tolist()
    return {"vanishing": int(vanishing), "layers": len(grads), "total_norm": total}
