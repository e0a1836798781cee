import torch


def gradient_health(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if not grads:
        return {"grad_norm": 0.0, "health": 1.0, "is_finite": True}
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    norms = torch.stack([norm.to(norms[0].device) for norm in norms])
    norm = torch.linalg.vector_norm(norms).item()
    is_finite = norm - norm == 0.0
    return {"grad_norm": norm, "health": 1.0 if is_finite else 0.0, "is_finite": is_finite}
