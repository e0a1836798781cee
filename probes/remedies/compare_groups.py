import math

import torch


def group_norm(grads):
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if not grads:
        return torch.zeros((), dtype=torch.float64)
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms]))


def compare_groups(host_parameters, seed_parameters):
    host, seed = [[p.grad for p in group if p.grad is not None] for group in (host_parameters, seed_parameters)]
    norm = group_norm(host)
    host_norm, seed_norm = torch.stack([norm, group_norm(seed).to(norm.device)]).tolist()
    ratio_is_defined = host_norm > 0.0 and seed_norm > 0.0
    ratio = 0.0
    if ratio_is_defined:
        count_ratio = sum(g.numel() for g in host) / sum(g.numel() for g in seed)
        ratio = seed_norm / host_norm * math.sqrt(count_ratio)
    return {
        "host_norm": host_norm,
        "seed_norm": seed_norm,
        "normalized_ratio": ratio,
        "ratio_is_defined": ratio_is_defined,
    }
