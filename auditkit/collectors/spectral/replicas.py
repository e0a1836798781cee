"""The gradients of one parameter from several replicas: what is accepted, and what is refused by name."""

from collections.abc import Sequence

import torch
from torch import Tensor


def checked_replicas(grads_RNM: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """Return each replica's N x M gradient, detached; nothing is copied.

    A ValueError names the first replica that is no matrix of real floating-point numbers, is empty, differs
    from replica 0 in shape, dtype or device, or holds NaN or infinity.
    """
    if isinstance(grads_RNM, Tensor) and grads_RNM.dim() != 3:
        raise ValueError(f"grads_RNM has shape {tuple(grads_RNM.shape)}: expected replicas x rows x columns")
    replicas = [replica.detach() for replica in grads_RNM]
    if len(replicas) < 2:
        raise ValueError(f"{len(replicas)} replica: aligning needs at least 2")
    for index, replica in enumerate(replicas):
        problem = _problem(replica, replicas[0])
        if problem:
            raise ValueError(f"replica {index} {problem}")
    return replicas


def _problem(replica: Tensor, first: Tensor) -> str | None:
    if replica.dim() != 2 or not replica.numel():
        return f"has shape {tuple(replica.shape)}: expected rows x columns, both above 0"
    if not replica.is_floating_point() or replica.layout != torch.strided:
        return f"is {replica.dtype}, {replica.layout}: expected dense floating-point numbers"
    for what, its, that in (
        ("shape", tuple(replica.shape), tuple(first.shape)),
        ("dtype", replica.dtype, first.dtype),
        ("device", replica.device, first.device),
    ):
        if its != that:
            return f"has {what} {its}, replica 0 has {that}"
    return None if _is_finite(replica) else "holds NaN or infinity"


def _is_finite(matrix: Tensor) -> bool:
    # A sum reads the matrix once and allocates nothing; one of finite numbers may overflow, so it only acquits.
    if torch.isfinite(matrix.sum(dtype=torch.promote_types(matrix.dtype, torch.float32))).item():
        return True
    return bool(torch.isfinite(matrix).all().item())
