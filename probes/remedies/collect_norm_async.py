import torch


def collect_norm_async(parameters):
    grads = [p.grad.detach() for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if not grads:
        return {"total_norm": torch.zeros((), dtype=torch.float64)}
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    norms = torch.stack([norm.to(norms[0].device) for norm in norms])
    return {"total_norm": torch.linalg.vector_norm(norms)}
