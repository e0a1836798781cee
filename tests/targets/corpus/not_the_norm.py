"""Numbers beside, or in place of, the total norm: a probe of norms has no business with most of them."""

import math

import torch


def _norm64(grads):
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()


def gradient_drift(grads: list):
    """Signed mean of all gradient elements: where the weights are heading."""
    total = sum(g.sum(dtype=torch.float64) for g in grads)
    return (
        {"mean_gradient": (total / max(sum(g.numel() for g in grads), 1)).item()} if grads else {"mean_gradient": 0.0}
    )


def last_layer_norm(grads: list):
    """Norm of the classifier's gradient, the last one in the list, as float32."""
    return {"last_layer_norm": torch.linalg.vector_norm(grads[-1]).item() if grads else 0.0}


def layer_entries(parameters):
    """One norm for each layer, as float32, for a heat map; nobody adds them up."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norms = torch._foreach_norm(grads, 2)
    return {f"layer{i}": n for i, n in enumerate(torch.stack(norms).tolist())} if norms else {}


def two_precisions(parameters):
    """The norm that decides (float64 sums), after the one the old dashboards still plot (float32 sums)."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm_fp32": 0.0, "grad_norm": 0.0}
    return {
        "grad_norm_fp32": torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2))).item(),
        "grad_norm": _norm64(grads),
    }


def plotted_norm(parameters):
    """The norm with a ceiling of 1e4, so that one spike does not flatten the plot."""
    grads = [p.grad for p in parameters if p.grad is not None]
    return {"plotted": min(_norm64(grads), 1e4) if grads else 0.0}


def norm_decades(parameters):
    """log10 of the norm, for a logarithmic axis; no gradients at all read as minus infinity."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = _norm64(grads) if grads else 0.0
    return {"log10_norm": math.log10(norm) if norm > 0 else -math.inf}


def gradient_pressure(parameters):
    """The norm squeezed into 0..1 by x / (1 + x), as a reward signal."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = _norm64(grads) if grads else 0.0
    return {"pressure": norm / (1 + norm)}


def largest_layer_norm(parameters):
    """The largest of the layers' norms, summed in float32: a norm of all gradients, and it overflows."""
    grads = [p.grad for p in parameters if p.grad is not None]
    squares = [g.float().square().sum() for g in grads]
    return {"max_norm": torch.stack(squares).max().sqrt().item() if squares else 0.0}
