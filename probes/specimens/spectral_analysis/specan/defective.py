"""The functions of `sound.py` with one defect each, as audits of real analyses met them."""

import torch

from .assignment import greedy_order, optimal_order
from .sound import aligned_svds, in_order, similarity


@torch.no_grad()
def aligned_to_first(u_RND, s_RD, v_RMD, choose):
    """Every replica in the order that `choose` makes of its similarity to the first one."""
    aligned = [(u_RND[0], s_RD[0], v_RMD[0])]
    for parts in list(zip(u_RND, s_RD, v_RMD, strict=True))[1:]:
        order = choose(similarity(parts[0], parts[2], u_RND[0], v_RMD[0]))
        aligned.append(in_order(*parts, order, u_RND[0], v_RMD[0]))
    return tuple(torch.stack(part) for part in zip(*aligned, strict=True))


def diagonal_svds(grads_RNM):
    """Aligned decompositions, the singular values as (R, D, D) diagonal matrices."""
    u_RND, s_RD, v_RMD = aligned_svds(grads_RNM)
    return u_RND, torch.diag_embed(s_RD), v_RMD


@torch.no_grad()
def unpromoted_svds(grads_RNM):
    """Aligned decompositions in the gradients' own dtype."""
    parts = [torch.linalg.svd(chunk, full_matrices=False) for chunk in grads_RNM.split(8)]
    u_RND, s_RD, vh_RDM = (torch.cat(part) for part in zip(*parts, strict=True))
    return aligned_to_first(u_RND, s_RD, vh_RDM.mT, optimal_order)


@torch.no_grad()
def rounded_svds(grads_RNM):
    """Aligned decompositions, rounded back to the gradients' dtype."""
    return tuple(part.to(grads_RNM.dtype) for part in aligned_svds(grads_RNM))


@torch.no_grad()
def greedy_svds(grads_RNM):
    """Decompositions whose directions are matched one after the other."""
    u_RND, s_RD, vh_RDM = torch.linalg.svd(grads_RNM.float(), full_matrices=False)
    return aligned_to_first(u_RND, s_RD, vh_RDM.mT, greedy_order)


@torch.no_grad()
def host_svds(grads_RNM):
    """Decompositions on the host, whatever device the gradients are on; the results go back."""
    parts = aligned_svds(grads_RNM.cpu())
    return tuple(part.to(grads_RNM.device) for part in parts)


@torch.no_grad()
def biased_echoes(grads_RNM):
    """Echoes whose numerator sums over triples of replicas and whose denominator over all pairs."""
    u_RND, _, v_RMD = aligned_svds(grads_RNM)
    z_DRR = torch.einsum("and,bnd->dab", u_RND, u_RND) * torch.einsum("amd,bmd->dab", v_RMD, v_RMD)
    z_DRR = z_DRR * (1 - torch.eye(len(grads_RNM), device=z_DRR.device))
    triples_DR = torch.einsum("dap,dpb,dab->dp", z_DRR, z_DRR, z_DRR)
    pairs_D = z_DRR.square().sum((1, 2)).clamp_min(1e-10)
    return (triples_DR / pairs_D[:, None]).clamp_min(0).sqrt().mean(1)


def overlapping_shards(keys, rank: int, world_size: int) -> list:
    """Shares of equal length, which the last ranks fill up with keys of the ranks before them."""
    length = -(-len(keys) // world_size)
    start = min(rank * length, max(0, len(keys) - length))
    return list(keys)[start : start + length]


def truncated_shards(world_size: int, keys, rank: int) -> set:
    """Shares of equal length; the keys that are left over belong to nobody."""
    length = len(keys) // world_size
    return set(keys[rank * length : (rank + 1) * length])


def unordered_shards(keys, rank: int, world_size: int) -> list:
    """Every `world_size`-th of a set, whose order is another one in every process."""
    return list(set(keys))[rank::world_size]
