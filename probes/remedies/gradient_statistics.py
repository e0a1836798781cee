import torch


def gradient_statistics(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if not grads:
        return {"grad_norm": 0.0, "max_layer_norm": 0.0}
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    norms = torch.stack([norm.to(norms[0].device) for norm in norms])
    total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": total, "max_layer_norm": largest}
