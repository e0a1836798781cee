import torch


def optimal_order(scores_DD):
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        return hungarian_order((-scores_DD.double()).tolist())
    rows, columns = linear_sum_assignment(-scores_DD.double().cpu().numpy())
    return rows[columns.argsort()].tolist()


def hungarian_order(costs):
    size = len(costs)
    row_price, column_price = [0.0] * (size + 1), [0.0] * (size + 1)
    row_of, came_from = [0] * (size + 1), [0] * (size + 1)
    for row in range(1, size + 1):
        row_of[0], column = row, 0
        shortest, done = [float("inf")] * (size + 1), [False] * (size + 1)
        while row_of[column]:
            done[column] = True
            current, step, nearest = row_of[column], float("inf"), 0
            for other in (other for other in range(1, size + 1) if not done[other]):
                length = costs[current - 1][other - 1] - row_price[current] - column_price[other]
                if length < shortest[other]:
                    shortest[other], came_from[other] = length, column
                if shortest[other] < step:
                    step, nearest = shortest[other], other
            for other in range(size + 1):
                if done[other]:
                    row_price[row_of[other]] += step
                    column_price[other] -= step
                else:
                    shortest[other] -= step
            column = nearest
        while column:
            row_of[column], column = row_of[came_from[column]], came_from[column]
    return [row - 1 for row in row_of[1:]]


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
