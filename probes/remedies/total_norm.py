import torch


def total_norm(parameters):
    grads = [p.grad.detach() for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if not grads:
        return 0.0
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms])).item()
