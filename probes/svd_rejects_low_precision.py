"""Do bfloat16 and float16 gradients raise, or lose digits that float32 keeps?"""

PROBE = {
    "id": "svd_rejects_low_precision",
    "version": 1,
    "title": "16-bit gradients are refused or lose accuracy",
    "contracts": ["aligned_svd", "spectral_echo"],
    "categories": ["Numerical stability", "Correctness bug"],
    "agent": "PT",
    "severity": "P2",
    "lifecycle": "stable",
    "instrument": "numerics",
    "devices": ["cuda", "cpu"],
    "motivation": "Gradients of today's training are bfloat16, and torch.linalg.svd has no 16-bit kernel: an analysis "
    "that worked on float32 replicas ends with 'not implemented'. A result that is rounded back to 16 bits keeps two "
    "or three digits, which is less than most directions of a gradient differ by.",
    "method": "The same replicas in float32, bfloat16 and float16. The 16-bit answer is compared with the one for the "
    "very same values in float32: singular values relative to the largest one, lengths of singular vectors, echoes. "
    "Where factors are handed over instead of gradients, the factors are rounded.",
    "limits": "What 16 bits lost before the call is not held against the target. Vectors are compared by their "
    "lengths alone: near a small gap their direction changes with any rounding.",
    "remediation": "Promote to float32 before the decomposition, a chunk of replicas at a time, and leave the results "
    "in float32.",
    "remediation_code": """import torch


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
""",
    "verification": ["bfloat16 and float16 gradients give the answer of their values in float32"],
    "measurements": {"raises": "truth", "relative_error": "ratio"},
    "policy": {"tolerance": 1e-4},
}

_DTYPES = ("bfloat16", "float16")
_REPLICAS, _ROWS, _COLUMNS = 5, 24, 6


def measure(ctx):
    """Yield for both dtypes whether the target raises, or how far its answer is from that in float32."""
    located = False
    for dtype in _DTYPES:
        grads = ctx.replicas(_REPLICAS, _ROWS, _COLUMNS, noise=0.3, dtype=dtype)
        try:
            answer = _numbers(ctx, grads)
        except ctx.TargetRaised as error:
            yield ctx.measurement("raises", True, "truth", dtype=dtype, how=str(error)[:160])
            if not located:
                located = True
                yield ctx.location(error.site or ctx.definition())
            continue
        expected = _numbers(ctx, ctx.widened(grads))
        error = max(_difference(answer[name], expected[name]) for name in expected)
        yield ctx.measurement("raises", False, "truth", dtype=dtype)
        yield ctx.measurement("relative_error", error, "ratio", dtype=dtype)
    if not located:
        yield ctx.location(ctx.definition())


def _numbers(ctx, grads):
    """What can be compared, by name, each as a tensor whose largest element is about 1."""
    if "echo" in ctx.roles:
        return {"echo": ctx.echoes(grads)}
    found = ctx.factors(grads)
    numbers = {name: found[name].norm(dim=1) for name in ("left", "right") if name in found}
    if "svals" in found:
        numbers["svals"] = found["svals"].sort(dim=1).values
    return numbers


def _difference(values, expected):
    """The largest difference relative to the largest expected value; infinite where shapes or NaNs differ."""
    if values.shape != expected.shape:
        return float("inf")
    difference = float((values - expected).abs().max() / expected.abs().max())
    return difference if difference == difference else float("inf")


def judge(measurements, policy):
    """Reproduced where a 16-bit dtype raises (P2), or is off by more than the policy's tolerance (P3)."""
    raised = {m.case["dtype"]: m.case["how"] for m in measurements if m.name == "raises" and m.value}
    errors = {m.case["dtype"]: m.value for m in measurements if m.name == "relative_error"}
    if raised:
        message = "; ".join("{} gradients raise {}".format(dtype, how) for dtype, how in raised.items())
        return {"outcome": "reproduced", "severity": "P2", "message": message}
    worst = max(errors, key=errors.get)
    text = "{:.2g} of the largest value for {}, against the same values in float32".format(errors[worst], worst)
    if errors[worst] > policy["tolerance"]:
        return {"outcome": "reproduced", "severity": "P3", "message": "the answer is off by " + text}
    return {"outcome": "not_reproduced", "message": "both 16-bit dtypes are taken; the answer is within " + text}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
