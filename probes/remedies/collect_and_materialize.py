import torch


def tensor_norms(grads):
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads])


def collect_norms_async(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    norms = tensor_norms(grads) if grads else torch.zeros(1, dtype=torch.float64)
    return {"_pair": torch.stack([torch.linalg.vector_norm(norms), norms.max()])}


def materialize_norms(pending):
    total, largest = pending["_pair"].tolist()
    return {"grad_norm": total, "max_norm": largest}


def gradient_norms(parameters):
    return materialize_norms(collect_norms_async(parameters))
