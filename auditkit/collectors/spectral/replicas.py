"""The gradients of one parameter from several replicas: what is accepted, and what is refused by name."""

from collections.abc import Sequence

import torch
from torch import Tensor

_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def checked_replicas(grads_RNM: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """Return each replica's N x M gradient, detached; nothing is copied.

    A ValueError names the first replica that is not a dense matrix of bfloat16 to float64, is empty, differs
    from replica 0 in shape, dtype or device, or holds NaN or infinity.
    """
    if isinstance(grads_RNM, Tensor) and grads_RNM.dim() != 3:
        raise ValueError(f"grads_RNM has shape {tuple(grads_RNM.shape)}: expected replicas x rows x columns")
    replicas = [replica.detach() for replica in grads_RNM]
    if len(replicas) < 2:
        raise ValueError(f"the number of replicas is {len(replicas)}: aligning needs at least 2")
    for index, replica in enumerate(replicas):
        problem = _problem(replica) or _difference(replica, replicas[0], "shape", "dtype", "device")
        if problem:
            raise ValueError(f"replica {index} {problem}")
    return replicas


def checked_reference(reference_NM: Tensor, replica_NM: Tensor) -> Tensor:
    """Return a reference of the caller's own, detached; a ValueError says why it is none for such replicas."""
    problem = _problem(reference_NM) or _difference(reference_NM, replica_NM, "shape")
    if problem:
        raise ValueError(f"reference {problem}")
    return reference_NM.detach()


def _problem(matrix: Tensor) -> str | None:
    if matrix.dim() != 2 or not matrix.numel():
        return f"has shape {tuple(matrix.shape)}: expected rows x columns, both above 0"
    if matrix.dtype not in _DTYPES or matrix.layout != torch.strided:
        return f"is {matrix.dtype}, {matrix.layout}: expected dense numbers of 16, 32 or 64 bits"
    if hasattr(matrix, "full_tensor"):
        return "is a DTensor: gather it first, by full_tensor()"
    if matrix.is_meta:
        return "is on device meta: it has no values"
    return None if torch.isfinite(matrix).all() else "holds NaN or infinity"


def _difference(matrix: Tensor, first: Tensor, *properties: str) -> str | None:
    for name in properties:
        its, that = getattr(matrix, name), getattr(first, name)
        if its != that:
            its, that = (tuple(each) if name == "shape" else each for each in (its, that))
            return f"has {name} {its}, replica 0 has {that}"
    return None
