"""Replica gradients whose true gradient is known, and the echoes that they truly have."""

from dataclasses import dataclass

import torch
from torch import Tensor

from auditkit.collectors.spectral import AlignedSvds


@dataclass(frozen=True, slots=True)
class Planted:
    """`grads_RNM` is U diag(strengths) V^T of rank K plus noise of variance 1 / M for each element."""

    grads_RNM: Tensor
    U_NK: Tensor
    V_MK: Tensor

    def true_echoes(self, aligned: AlignedSvds) -> Tensor:
        """Return each replica's echo of each true direction in each column: shape (R, K, D)."""
        left_RKD = self.U_NK.T @ aligned.U_RND
        return left_RKD * (self.V_MK.T @ aligned.V_RMD)


def plant(replica_count: int, rows_N: int, columns_M: int, strengths_K: list[float], seed: int) -> Planted:
    generator = torch.Generator().manual_seed(seed)
    rank = len(strengths_K)
    U_NK = torch.linalg.qr(torch.randn(rows_N, rank, generator=generator)).Q
    V_MK = torch.linalg.qr(torch.randn(columns_M, rank, generator=generator)).Q
    noise_RNM = torch.randn(replica_count, rows_N, columns_M, generator=generator) / columns_M**0.5
    return Planted((U_NK * torch.tensor(strengths_K)) @ V_MK.T + noise_RNM, U_NK, V_MK)


def expected_echo(strength: float, rows_N: int, columns_M: int) -> float:
    """Return the echo of a planted direction in matrices of this shape grown large.

    Benaych-Georges & Nadakuditi 2012, "The singular values and vectors of low rank perturbations of large
    rectangular random matrices", section 3.1: noise of variance 1 / M, c = N / M, strength above c^(1/4).
    """
    ratio, square = rows_N / columns_M, strength**2
    left = 1 - ratio * (1 + square) / (square * (square + ratio))
    right = 1 - (ratio + square) / (square * (square + 1))
    return float((left * right) ** 0.5)
