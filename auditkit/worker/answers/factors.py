"""The singular values and vectors in a result, found by their effect on the matrices, not by name or order.

A column u of an (R, N, K) tensor is a left singular vector if |G^T u| is a singular value; a row of an (R, K) tensor
has singular values if it is the largest K of them. So U, S and V are found in any order, transposed or not, in tuples,
mappings, records, and in lists of one entry for each replica.
"""

from typing import Any, Dict, Optional

import torch

from ..gradients.matrices import Svd, decomposed
from ..simulated.tensor import to_host
from .answers import items_of, joined
from .roles import Role

LEFT, SVALS, RIGHT, ECHO = "left", "svals", "right", "echo"
_DEEPEST = 4
_CLOSE = 1e-2


def tensor_parts(answer: Any, replica_count: int, path: str = "", depth: int = _DEEPEST) -> Dict[str, torch.Tensor]:
    """Return every array of a result by its path; a list with one item per replica is a batch at `path.*`."""
    tensor = _as_tensor(answer)
    if tensor is not None:
        return {path: tensor}
    parts = [(name, tensor_parts(item, replica_count, "", depth - 1)) for name, item in items_of(answer) if depth > 0]
    shapes = [[tensor.shape for tensor in part.values()] for _, part in parts]
    if (
        isinstance(answer, (list, tuple))
        and len(parts) == replica_count
        and shapes[0]
        and len(set(map(str, shapes))) == 1
    ):
        names = list(parts[0][1])
        stacked = [torch.stack(tensors) for tensors in zip(*(part.values() for _, part in parts), strict=True)]
        parts = [("*", dict(zip(names, stacked, strict=True)))]
    found = {joined(name, place) if place else name: tensor for name, part in parts for place, tensor in part.items()}
    return {joined(path, place): tensor for place, tensor in found.items()}


def _as_tensor(value: Any) -> Optional[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return to_host(value.detach()).cpu()
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 0) > 0:
        return torch.from_numpy(value)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    if numbers and all(isinstance(number, float) for number in numbers):
        return torch.tensor(value, dtype=torch.float64)
    return None


def factor_roles(answer: Any, grads_RNM: torch.Tensor) -> Dict[str, Role]:
    """Return which parts of a result are the singular values and vectors of `grads_RNM`, and in which form."""
    grads = to_host(grads_RNM).double()
    truth = decomposed(grads).svals
    readers = {SVALS: _svals_kind, LEFT: _vectors_kind, RIGHT: _vectors_kind}
    roles: Dict[str, Role] = {}
    for path, part in tensor_parts(answer, grads.shape[0]).items():
        if not part.is_floating_point() or part.dim() < 2 or part.shape[0] != grads.shape[0]:
            continue
        for role, reader in readers.items():
            kind = reader(part.double(), truth, grads.mT if role == LEFT else grads)
            if kind and role not in roles:
                roles[role] = Role(path, kind=kind)
                break
    return roles


def _svals_kind(part: torch.Tensor, truth_RD: torch.Tensor, _grads: torch.Tensor) -> str:
    """Return `vector` for (R, K), `matrix` for (R, K, K) with zeros beside the diagonal, or ""."""
    if part.dim() == 2:
        return "vector" if _is_spectrum(part, truth_RD) else ""
    if part.dim() != 3 or part.shape[1] != part.shape[2]:
        return ""
    diagonal = part.diagonal(dim1=1, dim2=2)
    is_diagonal = bool(part.count_nonzero() == diagonal.count_nonzero())
    return "matrix" if is_diagonal and _is_spectrum(diagonal, truth_RD) else ""


def _vectors_kind(part: torch.Tensor, truth_RD: torch.Tensor, maps: torch.Tensor) -> str:
    """Return `columns` or `rows` if these are unit vectors that `maps` stretches by the singular values, or ""."""
    for kind, columns in (("columns", part), ("rows", part.mT)):
        if part.dim() != 3 or columns.shape[1] != maps.shape[2]:
            continue
        is_unit = bool(((columns.norm(dim=1) - 1).abs() < _CLOSE).all())
        if is_unit and _is_spectrum((maps @ columns).norm(dim=1), truth_RD):
            return kind
    return ""


def _is_spectrum(values_RK: torch.Tensor, truth_RD: torch.Tensor) -> bool:
    """Return whether these are the K largest singular values of each replica, in any order; beyond D they are 0."""
    kept = values_RK.shape[1]
    padding = torch.zeros(truth_RD.shape[0], max(0, kept - truth_RD.shape[1]), dtype=truth_RD.dtype)
    expected = torch.cat([truth_RD, padding], dim=1)[:, :kept]
    ordered = values_RK.sort(dim=1, descending=True).values
    return kept > 0 and bool(((ordered - expected).abs() <= _CLOSE * truth_RD.amax()).all())


def read_factors(answer: Any, roles: Dict[str, Role], replica_count: int) -> Dict[str, torch.Tensor]:
    """Return U as (R, N, K), S as (R, K) and V as (R, M, K), in float64, by role, without missing ones."""
    parts = tensor_parts(answer, replica_count)
    found: Dict[str, torch.Tensor] = {}
    for name in (LEFT, SVALS, RIGHT):
        if name in roles and roles[name].path in parts:
            part, kind = parts[roles[name].path].double(), roles[name].kind
            upright = part.mT if kind == "rows" else part
            found[name] = upright.diagonal(dim1=1, dim2=2) if kind == "matrix" else upright
    return found


def as_svd(found: Dict[str, torch.Tensor]) -> Optional[Svd]:
    """Return the decomposition, if a result has both kinds of vectors."""
    if LEFT not in found or RIGHT not in found:
        return None
    kept = min(found[name].shape[2] for name in (LEFT, RIGHT))
    svals = found.get(SVALS, torch.ones(found[LEFT].shape[0], kept, dtype=torch.float64))[:, :kept]
    return Svd(found[LEFT][:, :, :kept], svals, found[RIGHT][:, :, :kept])


def echo_roles(high: Any, higher_scale: Any, low: Any, replica_count: int) -> Dict[str, Role]:
    """Return the part that is high for identical replicas at every scale, and low for unrelated ones."""
    parts, scaled, unrelated = (tensor_parts(each, replica_count) for each in (high, higher_scale, low))
    found: Dict[str, float] = {}
    for path, part in parts.items():
        others = scaled.get(path), unrelated.get(path)
        if not part.is_floating_point() or part.dim() > 2 or others[0] is None or others[1] is None:
            continue
        if part.shape != others[0].shape or not bool(((part - others[0]).abs() < _CLOSE).all()):
            continue
        contrast = float(part.double().mean()) - float(others[1].double().nanmean())
        if contrast > 0.2 and float(part.abs().max()) < 2:
            found[path] = contrast
    best = max(found, key=lambda path: ("echo" in path.lower(), found[path]), default=None)
    return {} if best is None else {ECHO: Role(best)}
