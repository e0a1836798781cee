"""Singular vectors of replica gradients, aligned with each other, and how much of the true gradient they echo.

    aligned = aligned_svds(grads_RNM)        # R gradients of one N x M parameter, one from each replica
    echoes = spectral_echoes(aligned)        # echo_D and standard_error_D, D = min(N, M)

Shapes in names: R replicas, N rows, M columns, D = min(N, M) singular directions, C replicas of one chunk.

Reading order: replicas (what is accepted), chunking (how many at once, and how they reach the device),
alignment (order, signs, repeated singular values), svd (what a user calls), echoes. Over the ranks of a training run:
collected (what a rank's replicas leave behind), shards (which rank owns which parameter), peers and agreement (ranks
that watch over each other), gather, stream (CSV), manifest (settings and fingerprint), runner (what a user calls).
"""

from .echoes import LEAST_REPLICAS, SpectralEchoes, spectral_echoes
from .svd import AlignedSvds, aligned_svds

__all__ = ["LEAST_REPLICAS", "AlignedSvds", "SpectralEchoes", "aligned_svds", "spectral_echoes"]
