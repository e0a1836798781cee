"""Aligned decompositions and echoes of replica gradients, and who analyses which parameter."""

import torch

from .assignment import optimal_order

REPLICAS_AT_ONCE = 8
LEAST_REPLICAS = 3


def similarity(u_ND, v_MD, reference_u_ND, reference_v_MD):
    """|<u_i, u_j>| |<v_i, v_j>| for every direction and every one of the reference."""
    return (u_ND.mT @ reference_u_ND).abs() * (v_MD.mT @ reference_v_MD).abs()


def in_order(u_ND, s_D, v_MD, order, reference_u_ND, reference_v_MD):
    """The directions in an order, with the signs of the reference."""
    u_ND, s_D, v_MD = u_ND[:, order], s_D[order], v_MD[:, order]
    overlap_D = (u_ND * reference_u_ND).sum(0) * (v_MD * reference_v_MD).sum(0)
    return u_ND, s_D, v_MD * torch.where(overlap_D < 0, -1.0, 1.0)


@torch.no_grad()
def aligned_svds(grads_RNM: torch.Tensor):
    """U (R, N, D), singular values (R, D) and V (R, M, D), in float32, aligned to the first replica."""
    replicas, rows, columns = grads_RNM.shape
    kept = min(rows, columns)
    u_RND = torch.empty(replicas, rows, kept, device=grads_RNM.device)
    s_RD = torch.empty(replicas, kept, device=grads_RNM.device)
    v_RMD = torch.empty(replicas, columns, kept, device=grads_RNM.device)
    for start in range(0, replicas, REPLICAS_AT_ONCE):
        chunk = slice(start, start + REPLICAS_AT_ONCE)
        u, s_RD[chunk], vh = torch.linalg.svd(grads_RNM[chunk].float(), full_matrices=False)
        u_RND[chunk], v_RMD[chunk] = u, vh.mT
    for index in range(1, replicas):
        parts = u_RND[index], s_RD[index], v_RMD[index]
        order = optimal_order(similarity(parts[0], parts[2], u_RND[0], v_RMD[0]))
        u_RND[index], s_RD[index], v_RMD[index] = in_order(*parts, order, u_RND[0], v_RMD[0])
    return u_RND, s_RD, v_RMD


@torch.no_grad()
def spectral_echoes(grads_RNM: torch.Tensor) -> torch.Tensor:
    """The echo of every direction, (D,): 1 where all replicas agree on it, 0 where none do.

    With Z_ab = <u_a, u_b><v_a, v_b> of two replicas, Z_ap Z_pb / Z_ab is the squared echo of replica p. Numerator
    and denominator are summed over the same triples of three different replicas. Raises ValueError for fewer.
    """
    replicas = grads_RNM.shape[0]
    if replicas < LEAST_REPLICAS:
        raise ValueError(f"an echo needs {LEAST_REPLICAS} replicas: two cannot tell whose noise parts them")
    u_RND, _, v_RMD = aligned_svds(grads_RNM)
    z_DRR = torch.einsum("and,bnd->dab", u_RND, u_RND) * torch.einsum("amd,bmd->dab", v_RMD, v_RMD)
    z_DRR = z_DRR * (1 - torch.eye(replicas, device=z_DRR.device))
    triples_DR = torch.einsum("dap,dpb,dab->dp", z_DRR, z_DRR, z_DRR)
    squares = z_DRR.square()
    pairs_DR = squares.sum((1, 2))[:, None] - 2 * squares.sum(1)
    squared_DR = torch.where(pairs_DR > 1e-10, triples_DR / pairs_DR.clamp_min(1e-10), 0.0)
    return squared_DR.clamp(0, 1).sqrt().mean(1)


def shard_keys(keys, rank: int, world_size: int) -> list:
    """The parameters that `rank` analyses: every `world_size`-th of them."""
    return list(keys)[rank::world_size]
