"""The counterparts of `defective_compile.py`: one graph and a read behind its end, or a declared opt-out."""

import torch

from .sound import layer_norms


def selected_share(parameters) -> dict:
    """Norm of the gradients, and the largest layer's share of it: chosen by torch.where, read at the end."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "largest_share": 0.0}
    norms = layer_norms(grads)
    total, largest = torch.linalg.vector_norm(norms), norms.max()
    share = torch.where(total > 0, largest / total, largest)
    values = torch.stack([total, share]).tolist()
    return {"grad_norm": values[0], "largest_share": values[1]}


@torch.compiler.disable
def eager_layer_norms(parameters) -> dict:
    """Norm of the gradients with the largest layer; runs between compiled regions, never in one."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "max_layer_norm": 0.0}
    norms = layer_norms(grads)
    total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": total, "max_layer_norm": largest}


def collect_quiet_async(parameters) -> dict:
    """Norms as device tensors, until `materialize_quiet`; what there is to log is logged there."""
    grads = [p.grad for p in parameters if p.grad is not None]
    return {"_norms": layer_norms(grads) if grads else torch.zeros(1, dtype=torch.float64)}


def materialize_quiet(pending: dict) -> dict:
    """The numbers of `collect_quiet_async`, read in one copy."""
    norms = pending["_norms"]
    total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": total, "max_layer_norm": largest}
