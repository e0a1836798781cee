import torch


def tensor_norms(grads):
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads])


def layer_norms(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "max_norm": 0.0}
    norms = tensor_norms(grads)
    values = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": values[0], "max_norm": values[1]}
