import torch
from scipy.optimize import linear_sum_assignment


def optimal_order(scores_DD):
    rows, columns = linear_sum_assignment(-scores_DD.double().cpu().numpy())
    return rows[columns.argsort()].tolist()


@torch.no_grad()
def aligned_svds(grads_RNM, replicas_at_once=8):
    replicas, rows, columns = grads_RNM.shape
    kept = min(rows, columns)
    u_RND = torch.empty(replicas, rows, kept, device=grads_RNM.device)
    s_RD = torch.empty(replicas, kept, device=grads_RNM.device)
    v_RMD = torch.empty(replicas, columns, kept, device=grads_RNM.device)
    for start in range(0, replicas, replicas_at_once):
        chunk = slice(start, start + replicas_at_once)
        # float32: SVD has no 16-bit kernels, and a 16-bit result would keep two or three digits.
        u_RND[chunk], s_RD[chunk], vh = torch.linalg.svd(grads_RNM[chunk].float(), full_matrices=False)
        v_RMD[chunk] = vh.mT
    for i in range(1, replicas):
        scores = (u_RND[i].mT @ u_RND[0]).abs() * (v_RMD[i].mT @ v_RMD[0]).abs()
        order = optimal_order(scores)
        u_RND[i], s_RD[i], v_RMD[i] = u_RND[i][:, order], s_RD[i][order], v_RMD[i][:, order]
        overlap_D = (u_RND[i] * u_RND[0]).sum(0) * (v_RMD[i] * v_RMD[0]).sum(0)
        v_RMD[i] *= torch.where(overlap_D < 0, -1.0, 1.0)
    return u_RND, s_RD, v_RMD
