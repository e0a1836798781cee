"""What a docstring promises of synchronisations, and what the code does."""

import torch


def _norms(parameters):
    grads = [p.grad.detach() for p in parameters if p.grad is not None]
    return (
        torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
        if grads
        else torch.zeros(1, dtype=torch.float64)
    )


def logged_norm(parameters):
    """Total norm for the asynchronous log writer, which runs in a thread of its own. Blocks until it is known."""
    return torch.linalg.vector_norm(_norms(parameters)).item()


def one_read_stats(parameters):
    """Total, largest and smallest layer norm. Costs exactly one host synchronization (one .item())."""
    norms = _norms(parameters)
    return {"total": torch.linalg.vector_norm(norms).item(), "max": norms.max().item(), "min": norms.min().item()}


def collect_norm_async(parameters):
    """Total norm, left on the device."""  # wrong on purpose: the check for NaN reads it
    norm = torch.linalg.vector_norm(_norms(parameters))
    if torch.isnan(norm):
        norm = torch.full_like(norm, float("inf"))
    return {"norm": norm}


def collect_layers_async(parameters):
    """Layer norms and their total, left on the device."""
    norms = _norms(parameters)
    return {"norms": norms, "total": torch.linalg.vector_norm(norms)}


def materialize_layers(pending):
    """One read of what collect_layers_async left on the device."""
    *norms, total = torch.cat([pending["norms"], pending["total"].reshape(1)]).tolist()
    return {"norms": norms, "total": total}
