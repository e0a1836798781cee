"""Singular vectors of one replica in the order, with the signs and in the bases of a reference.

What an SVD leaves open is settled by the reference: the order of the directions (an assignment), the joint
sign of each pair of vectors, and the basis of a subspace whose singular values are equal.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Assignment = Literal["optimal", "greedy"]

RESOLUTION = 16.0
"""Singular values closer than this many rounding errors of the largest one are one value to an SVD in floating
point: LAPACK left up to 5 of them between equal ones, in float32 up to 2048 x 512."""


def resolution_of(largest: Tensor) -> Tensor:
    """Return the distance below which singular values beside `largest` are equal, or are zero."""
    return largest * (RESOLUTION * torch.finfo(largest.dtype).eps)


def available_assignment() -> Assignment:
    """Return "optimal" where scipy is installed, else "greedy"."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        return "greedy"
    return "optimal"


def align(
    U_ND: Tensor, svals_D: Tensor, V_MD: Tensor, reference_U_ND: Tensor, reference_V_MD: Tensor, how: Assignment
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same decomposition, column j of it being the one that belongs to column j of the reference.

    U and V are rotated in place where singular values repeat. The result's singular values are in the order
    of the reference, which need not be descending.
    """
    overlap_U_DD = U_ND.T @ reference_U_ND
    overlap_V_DD = V_MD.T @ reference_V_MD
    for group in repeated_values(svals_D):
        _rotate_towards_reference(group, U_ND, V_MD, overlap_U_DD, overlap_V_DD)
    score_DD = (overlap_U_DD * overlap_V_DD).abs()
    columns_D = torch.from_numpy(assign(score_DD.cpu().numpy(), how)).to(U_ND.device)
    agreement_DD = overlap_U_DD + overlap_V_DD
    agreement_D = agreement_DD[columns_D, torch.arange(len(columns_D), device=U_ND.device)]
    signs_D = torch.where(agreement_D < 0, -1.0, 1.0).to(U_ND.dtype)
    return U_ND[:, columns_D] * signs_D, svals_D[columns_D], V_MD[:, columns_D] * signs_D


def repeated_values(svals_D: Tensor) -> Iterator[slice]:
    """Yield the runs of two or more descending singular values that an SVD cannot tell apart."""
    equal = (svals_D[:-1] - svals_D[1:] <= resolution_of(svals_D[0])).tolist()
    start = 0
    for index, joined in enumerate([*equal, False]):
        if not joined:
            if index > start:
                yield slice(start, index + 1)
            start = index + 1


def _rotate_towards_reference(
    group: slice, U_ND: Tensor, V_MD: Tensor, overlap_U_DD: Tensor, overlap_V_DD: Tensor
) -> None:
    """Turn the bases of a subspace of equal singular values to the reference's (orthogonal Procrustes).

    (U Q, V Q) is a singular basis as good as (U, V) for every orthogonal Q; the one taken maximizes the summed
    agreement with those columns of the reference that lie most in the subspace, by a score that no Q changes.
    """
    within_D = (overlap_U_DD[group] * overlap_V_DD[group]).sum(dim=0)
    targets = within_D.topk(group.stop - group.start).indices.sort().values
    left, _, right = torch.linalg.svd(overlap_U_DD[group, targets] + overlap_V_DD[group, targets])
    rotation = left @ right
    for vectors in (U_ND, V_MD):
        vectors[:, group] = vectors[:, group] @ rotation
    for overlap_DD in (overlap_U_DD, overlap_V_DD):
        overlap_DD[group] = rotation.T @ overlap_DD[group]


def assign(score_DD: NDArray[np.floating], how: Assignment) -> NDArray[np.int64]:
    """Return for each column of `score_DD` a row of its own, the sum of the scores being large.

    "optimal" makes it the largest there is; "greedy" takes the largest score left, again and again.
    """
    if how == "greedy":
        return _assign_greedily(score_DD)
    from scipy.optimize import linear_sum_assignment

    _, rows = linear_sum_assignment(score_DD.T, maximize=True)
    return np.asarray(rows, dtype=np.int64)


def _assign_greedily(score_DD: NDArray[np.floating]) -> NDArray[np.int64]:
    """Pair rows and columns that are each other's best, until none is left.

    That is the greedy pairing, found for many pairs at a time; of equal scores the first row and column win.
    """
    open_DD = score_DD.copy()
    rows_D = np.full(len(open_DD), -1, dtype=np.int64)
    while (rows_D < 0).any():
        best_row_D, best_column_D = open_DD.argmax(axis=0), open_DD.argmax(axis=1)
        columns = np.flatnonzero((best_column_D[best_row_D] == np.arange(len(rows_D))) & (rows_D < 0))
        rows_D[columns] = best_row_D[columns]
        open_DD[best_row_D[columns], :] = -1.0
        open_DD[:, columns] = -1.0
    return rows_D
