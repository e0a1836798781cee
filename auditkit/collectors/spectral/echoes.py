"""Spectral echoes: how much of a true gradient's singular direction a replica's one carries.

The derivation, with bias and variance, is in docs/design/spectral.md.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .alignment import resolution_of
from .svd import AlignedSvds

LEAST_REPLICAS = 3
"""Two replicas make one pair: an estimate, and nothing that could say how wrong it is."""

BLOCK_BYTES = 64 * 2**20
"""Directions are worked on in blocks whose singular vectors of all replicas take about this much."""


@dataclass(frozen=True, slots=True)
class SpectralEchoes:
    """The echo of each direction, -1 to 1, and its standard error, in the order of the aligned columns."""

    echo_D: Tensor
    standard_error_D: Tensor


@torch.no_grad()
def spectral_echoes(aligned: AlignedSvds) -> SpectralEchoes:
    """Return for each direction the mean over replicas of <u, u_r><v, v_r>, u and v being the true gradient's.

    It is the signed square root of the mean overlap <u_a, u_b><v_a, v_b> of two replicas, over all pairs that
    are not both part of the reference; the standard error is the jackknife's over replicas. Identical replicas
    echo 1, independent noise echoes 0 in expectation, and a direction that a replica does not have (its
    singular value is zero to rounding) adds 0.

    A ValueError says how many replicas it needs.
    """
    replica_count = aligned.U_RND.shape[0]
    if replica_count < LEAST_REPLICAS:
        raise ValueError(f"{replica_count} replicas: an echo needs at least {LEAST_REPLICAS}")
    pairs_RR = _pairs(replica_count, aligned.reference_count).to(aligned.U_RND.device)
    present_RD = aligned.svals_RD > resolution_of(aligned.svals_RD.amax(dim=1, keepdim=True))
    per_direction = sum(vectors[:, :, 0].nbytes for vectors in (aligned.U_RND, aligned.V_RMD))
    block = max(1, BLOCK_BYTES // per_direction)
    estimates = [
        _estimate(_overlaps(aligned, present_RD, slice(start, start + block)), pairs_RR)
        for start in range(0, present_RD.shape[1], block)
    ]
    echo_D, standard_error_D = (torch.cat(parts) for parts in zip(*estimates, strict=True))
    return SpectralEchoes(echo_D, standard_error_D)


def _pairs(replica_count: int, reference_count: int) -> Tensor:
    """Return which ordered pairs of different replicas count, as a mask of 0 and 1."""
    pairs_RR = 1 - torch.eye(replica_count, dtype=torch.float64)
    pairs_RR[:reference_count, :reference_count] = 0
    return pairs_RR


def _overlaps(aligned: AlignedSvds, present_RD: Tensor, block: slice) -> Tensor:
    """Return <u_a, u_b><v_a, v_b> of all replicas a and b for a block of directions: shape (D, R, R)."""
    # Contiguous, or the products read with a stride and take thirty times as long.
    U_DRN = (aligned.U_RND[:, :, block] * present_RD[:, None, block]).permute(2, 0, 1).contiguous()
    V_DRM = aligned.V_RMD[:, :, block].permute(2, 0, 1).contiguous()
    return ((U_DRN @ U_DRN.mT) * (V_DRM @ V_DRM.mT)).double()


def _estimate(overlap_DRR: Tensor, pairs_RR: Tensor) -> tuple[Tensor, Tensor]:
    """Return the echo and its standard error from the overlaps of the pairs that count."""
    replica_count = len(pairs_RR)
    sum_DR = (overlap_DRR * pairs_RR).sum(dim=2)
    count_R = pairs_RR.sum(dim=1)
    mean_D = sum_DR.sum(dim=1) / count_R.sum()
    # Without replica r, both of its row and its column of the symmetric overlaps are gone.
    without_DR = (sum_DR.sum(dim=1, keepdim=True) - 2 * sum_DR) / (count_R.sum() - 2 * count_R)
    variance_D = (without_DR - mean_D[:, None]).square().sum(dim=1) * (replica_count - 1) / replica_count
    deviation_D = variance_D.sqrt()
    # Half the width of the interval's image: s / (2 echo) far from zero, sqrt(s) at zero, where that has no value.
    standard_error_D = (_signed_sqrt(mean_D + deviation_D) - _signed_sqrt(mean_D - deviation_D)) / 2
    return _signed_sqrt(mean_D), standard_error_D


def _signed_sqrt(values: Tensor) -> Tensor:
    return values.sign() * values.abs().sqrt()
