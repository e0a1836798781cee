import torch
import torch.distributed as dist


@torch.no_grad()
def spectral_echoes(grads_RNM):
    replicas = grads_RNM.shape[0]
    if replicas < 3:
        raise ValueError("an echo needs 3 replicas, not {}".format(replicas))
    u_RND, _, vh_RDM = torch.linalg.svd(grads_RNM.float(), full_matrices=False)
    z_DRR = torch.einsum("and,bnd->dab", u_RND, u_RND) * torch.einsum("adm,bdm->dab", vh_RDM, vh_RDM)
    z_DRR = z_DRR * (1 - torch.eye(replicas, device=z_DRR.device))
    triples_DR = torch.einsum("dap,dpb,dab->dp", z_DRR, z_DRR, z_DRR)
    squares = z_DRR.square()
    pairs_DR = squares.sum((1, 2))[:, None] - 2 * squares.sum(1)
    squared_DR = torch.where(pairs_DR > 1e-10, triples_DR / pairs_DR.clamp_min(1e-10), 0.0)
    return squared_DR.clamp(0, 1).sqrt().mean(1)


def gathered_echoes(grads_RNM):
    if dist.is_available() and dist.is_initialized():
        parts = [torch.empty_like(grads_RNM) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, grads_RNM.contiguous())
        grads_RNM = torch.cat(parts)
    return spectral_echoes(grads_RNM)
