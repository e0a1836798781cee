"""Aligned singular value decompositions of replica gradients, a bounded number of replicas at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .alignment import Assignment, align, available_assignment
from .replicas import checked_reference, checked_replicas

MOST_REPLICAS = 8
"""More at once gains nothing: LAPACK and cuSOLVER take matrices of these sizes one after the other."""
CHUNK_BYTES = 512 * 2**20
"""About the most memory that a chunk of several replicas takes."""


@dataclass(frozen=True, slots=True)
class AlignedSvds:
    """Singular vectors and values of R replicas: column j is the same direction in every one of them.

    `assignment` says how the order was found; the first `reference_count` replicas made the reference, whose
    mean gradient's descending singular values order the columns.
    """

    U_RND: Tensor
    svals_RD: Tensor
    V_RMD: Tensor
    assignment: Assignment
    reference_count: int


@torch.no_grad()
def aligned_svds(
    grads_RNM: Tensor | Sequence[Tensor],
    *,
    reference: Literal["half", "first"] | Tensor = "half",
    chunk: int | None = None,
    device: torch.device | str | None = None,
    results_on_cpu: bool = False,
) -> AlignedSvds:
    """Return the SVDs of the replicas' gradients, aligned with a reference: grads = U diag(svals) V^T for each.

    `grads_RNM` is one tensor or R matrices of one shape, dtype and device; float16 and bfloat16 are worked on
    in float32. `reference` is the mean gradient of the first half of the replicas, the first replica, or an
    N x M tensor of your own, which must not depend on the replicas if echoes are to be estimated.
    `chunk` replicas are worked on at once: by default as many as half a GiB holds, 1 to 8.
    `device` is by default that of the gradients, or CUDA where there is one. The results lie on the gradients'
    device, or on the CPU on request: each chunk then leaves the device before the next one is worked on.

    A ValueError names a replica that is not a finite matrix like the others, or reports that there is only one.
    """
    replicas = checked_replicas(grads_RNM)
    given = replicas[0].device
    if device is None:  # gradients that already lie on an accelerator stay there
        device = "cuda" if given.type == "cpu" and torch.cuda.is_available() else given
    dtype = torch.promote_types(replicas[0].dtype, torch.float32)
    rows_N, columns_M = replicas[0].shape
    rank_D = min(rows_N, columns_M)
    U_RND, svals_RD, V_RMD = (
        torch.empty((len(replicas), *shape), dtype=dtype, device="cpu" if results_on_cpu else given)
        for shape in ((rows_N, rank_D), (rank_D,), (columns_M, rank_D))
    )
    if chunk is None:
        chunk = max(1, min(CHUNK_BYTES // replica_bytes(rows_N, columns_M, dtype), MOST_REPLICAS, len(replicas)))
    elif chunk < 1:
        raise ValueError(f"chunk is {chunk}: expected at least 1 replica")
    reference_NM, reference_count = _reference_gradient(replicas, reference, chunk, torch.device(device), dtype)
    how = available_assignment()
    reference_U_ND, _, reference_Vh_DM = torch.linalg.svd(reference_NM, full_matrices=False)
    start = 0
    for chunk_CNM in _chunks(replicas, chunk, reference_NM.device, dtype):
        parts = tuple(result[start : start + len(chunk_CNM)] for result in (U_RND, svals_RD, V_RMD))
        _fill_chunk(parts, chunk_CNM, reference_U_ND, reference_Vh_DM.mT, how)
        start += len(chunk_CNM)
    return AlignedSvds(U_RND, svals_RD, V_RMD, assignment=how, reference_count=reference_count)


def replica_bytes(rows_N: int, columns_M: int, dtype: torch.dtype) -> int:
    """Return the bytes that one replica needs while it is worked on.

    The promoted copy and the one that the SVD overwrites; U and V and their aligned copies; LAPACK's workspace of
    4 D x D and the overlaps with the reference.
    """
    rank_D = min(rows_N, columns_M)
    return dtype.itemsize * (2 * rows_N * columns_M + 2 * rank_D * (rows_N + columns_M) + 8 * rank_D**2)


def _chunks(replicas: Sequence[Tensor], chunk: int, device: torch.device, dtype: torch.dtype) -> Iterator[Tensor]:
    """Yield the replicas in order as `dtype` on `device`, shape (C, N, M) with C at most `chunk`.

    Each result is a buffer that the next one overwrites.
    """
    buffer_CNM = torch.empty((min(chunk, len(replicas)), *replicas[0].shape), dtype=dtype, device=device)
    for start in range(0, len(replicas), chunk):
        batch = replicas[start : start + chunk]
        for row_NM, replica in zip(buffer_CNM, batch, strict=False):
            row_NM.copy_(replica)
        yield buffer_CNM[: len(batch)]


def _reference_gradient(
    replicas: Sequence[Tensor],
    reference: Literal["half", "first"] | Tensor,
    chunk: int,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[Tensor, int]:
    """Return the matrix to align with, on `device`, and how many of the first replicas it is made of."""
    if isinstance(reference, Tensor):
        return checked_reference(reference, replicas[0]).to(device, dtype), 0
    if reference not in ("half", "first"):
        raise ValueError(f"reference is {reference!r}: expected 'half', 'first' or a tensor")
    count = len(replicas) // 2 if reference == "half" else 1
    mean_NM = torch.zeros(replicas[0].shape, dtype=dtype, device=device)
    for chunk_CNM in _chunks(replicas[:count], chunk, device, dtype):
        for replica in chunk_CNM:
            # Divided before they are added: the sum of large gradients could overflow, their mean cannot.
            mean_NM.add_(replica, alpha=1 / count)
    return mean_NM, count


def _fill_chunk(
    results: tuple[Tensor, ...], chunk_CNM: Tensor, reference_U_ND: Tensor, reference_V_MD: Tensor, how: Assignment
) -> None:
    """Decompose one chunk and align it; what it allocates is gone before the next chunk is decomposed."""
    U_CND, svals_CD, Vh_CDM = torch.linalg.svd(chunk_CNM, full_matrices=False)
    for index, decomposition in enumerate(zip(U_CND, svals_CD, Vh_CDM.mT, strict=True)):
        for result, part in zip(results, align(*decomposition, reference_U_ND, reference_V_MD, how), strict=True):
            result[index].copy_(part)
