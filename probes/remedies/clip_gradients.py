import torch


def clip_gradients(parameters, max_norm=1.0):
    grads = [p.grad for p in parameters if p.grad is not None]
    values = [g.detach().coalesce().values() if g.is_sparse else g.detach() for g in grads]
    if not values:
        return torch.zeros((), dtype=torch.float64)
    norms = torch._foreach_norm(values, 2, dtype=torch.float64)
    norm = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms]))
    # In two steps: a coefficient below 6e-8 is zero in float16, where _foreach_mul_ rounds it to.
    root = (max_norm / norm).clamp(max=1.0).sqrt()
    for device in dict.fromkeys(g.device for g in grads):
        own = [g for g in grads if g.device == device]
        torch._foreach_mul_(own, root.to(device))
        torch._foreach_mul_(own, root.to(device))
    return norm
