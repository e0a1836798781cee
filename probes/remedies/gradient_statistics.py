import torch


@torch.no_grad()
def gradient_statistics(parameters):
    grads = [p.grad.detach() for p in list(parameters) if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    grads = [g for g in grads if g.numel()]
    if not grads:
        return {"grad_norm": 0.0, "max_layer_norm": 0.0, "mean_layer_norm": 0.0, "is_finite": True}
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    norms = torch.stack([norm.to(norms[0].device) for norm in norms])
    total, largest, mean = torch.stack([torch.linalg.vector_norm(norms), norms.max(), norms.mean()]).tolist()
    return {"grad_norm": total, "max_layer_norm": largest, "mean_layer_norm": mean, "is_finite": total - total == 0.0}
