"""Singular vectors of replica gradients, aligned with each other, and how much of the true gradient they echo.

    aligned = aligned_svds(grads_RNM)        # R gradients of one N x M parameter, one from each replica
    echoes = spectral_echoes(aligned)        # echo_D and standard_error_D, D = min(N, M)

Shapes in names: R replicas, N rows, M columns, D = min(N, M) singular directions, C replicas of one chunk.

Reading order: replicas (what is accepted), alignment (order, signs, repeated singular values), svd (what a user calls,
and how many replicas it works on at once), echoes. With several ranks, `plan_shards` assigns
each parameter to a rank, and `gather_replicas` brings that parameter's replicas to it.
"""

from .echoes import LEAST_REPLICAS, SpectralEchoes, spectral_echoes
from .ranks import ShardPlan, gather_replicas, plan_shards, svd_work
from .svd import AlignedSvds, aligned_svds

__all__ = [
    "LEAST_REPLICAS",
    "AlignedSvds",
    "ShardPlan",
    "SpectralEchoes",
    "aligned_svds",
    "gather_replicas",
    "plan_shards",
    "spectral_echoes",
    "svd_work",
]
