import torch


def spectral_echoes(u_RND, v_RMD):
    """(D,) of the aligned singular vectors of R replicas: 1 where all agree, 0 where none do."""
    replicas = u_RND.shape[0]
    if replicas < 3:
        raise ValueError("an echo needs 3 replicas, not {}".format(replicas))
    u_RND, v_RMD = u_RND.float(), v_RMD.float()
    z_DRR = torch.einsum("and,bnd->dab", u_RND, u_RND) * torch.einsum("amd,bmd->dab", v_RMD, v_RMD)
    z_DRR = z_DRR * (1 - torch.eye(replicas, device=z_DRR.device))
    triples_DR = torch.einsum("dap,dpb,dab->dp", z_DRR, z_DRR, z_DRR)
    squares = z_DRR.square()
    pairs_DR = squares.sum((1, 2))[:, None] - 2 * squares.sum(1)  # without those of replica p
    squared_DR = torch.where(pairs_DR > 1e-10, triples_DR / pairs_DR.clamp_min(1e-10), 0.0)
    return squared_DR.clamp(0, 1).sqrt().mean(1)
