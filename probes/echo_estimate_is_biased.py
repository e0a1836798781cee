#!/usr/bin/env python3
"""Do identical replicas echo 1, however many there are, and orthogonal ones 0?"""

import math

PROBE = {
    "id": "echo_estimate_is_biased",
    "version": 1,
    "title": "The spectral echo depends on the number of replicas",
    "contracts": ["spectral_echo"],
    "categories": ["Correctness bug", "Numerical stability"],
    "agent": "PT",
    "breaks": "wrong_answer",
    "occurs": "common",
    "lifecycle": "stable",
    "instrument": "numerics",
    "devices": ["cuda", "cpu"],
    "motivation": "An echo says how much of a singular direction is signal. An estimate that divides a sum over "
    "triples of replicas by a sum over all pairs reads sqrt(1 - 2/R) where all replicas agree: 0.58 for 3 of them "
    "and 0.87 for 8, so that runs with another number of replicas cannot be compared, and every direction looks "
    "noisier than it is.",
    "method": "Echoes of R identical replicas, which are 1, and of R replicas with orthogonal left singular vectors, "
    "which are 0, for R = 2, 3, 4, 8, 16 and 32. The law in R is the measurement. A ValueError that refuses too few "
    "replicas is no finding.",
    "limits": "Two known ends are tested, not what lies between: an estimate that bends there passes. Where factors "
    "are handed over, they are aligned by the best assignment to the first replica.",
    "remediation": "Sum numerator and denominator over the same triples of three different replicas, p, a and b: "
    "Z_ap Z_pb Z_ab over Z_ab squared. Refuse fewer than three: two replicas cannot tell whose noise parts them.",
    "remediation_code": """import torch


def spectral_echoes(u_RND, v_RMD):
    \"\"\"(D,) of the aligned singular vectors of R replicas: 1 where all agree, 0 where none do.\"\"\"
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
""",
    "verification": ["identical replicas echo 1 and orthogonal ones 0 for every R that is accepted"],
    "measurements": {"echo_of_identical": "echo", "echo_of_orthogonal": "echo", "refused": "truth"},
    "policy": {"tolerance": 0.001, "orthogonal_tolerance": 0.05},
}

_COUNTS = (2, 3, 4, 8, 16, 32)
_COLUMNS = 4


def measure(ctx):
    """Yield the echo farthest from 1 and the one farthest from 0, for every number of replicas."""
    answered = 0
    for count in _COUNTS:
        try:
            same = ctx.echoes(ctx.identical(count, count * _COLUMNS, _COLUMNS))
            apart = ctx.echoes(ctx.orthogonal(count, _COLUMNS))
        except ctx.TargetRaised as error:
            if not (error.deliberate and "ValueError" in str(error)):
                raise
            yield ctx.measurement("refused", True, "truth", replicas=count, how=str(error)[:160])
            continue
        answered += 1
        yield ctx.measurement("refused", False, "truth", replicas=count)
        yield ctx.measurement("echo_of_identical", _farthest(same, 1.0), "echo", replicas=count)
        yield ctx.measurement("echo_of_orthogonal", _farthest(apart, 0.0), "echo", replicas=count)
    if not answered:
        raise ctx.NotApplicable("it refuses every number of replicas up to {}".format(_COUNTS[-1]))
    yield ctx.location(ctx.definition())


def _farthest(echoes, truth):
    """The value that is farthest from the truth; NaN where there is any."""
    values = echoes.flatten().tolist()
    broken = [value for value in values if math.isnan(value)]
    return broken[0] if broken else max(values, key=lambda value: abs(value - truth))


def judge(measurements, policy):
    """Reproduced where an accepted R gives another echo than 1 for identical replicas, or than 0 for orthogonal."""
    same = {m.case["replicas"]: m.value for m in measurements if m.name == "echo_of_identical"}
    apart = {m.case["replicas"]: m.value for m in measurements if m.name == "echo_of_orthogonal"}
    low = {count: value for count, value in same.items() if not abs(value - 1) <= policy["tolerance"]}
    high = {count: value for count, value in apart.items() if not abs(value) <= policy["orthogonal_tolerance"]}
    law = ", ".join("{:.3f} at R = {}".format(value, count) for count, value in same.items())
    if not low and not high:
        message = "identical replicas echo 1 and orthogonal ones 0 from R = {} on".format(min(same))
        return {"outcome": "not_reproduced", "message": message, "law": law}
    parts = []
    if low:
        parts.append("identical replicas echo " + ", ".join("{:.3f} at R = {}".format(v, n) for n, v in low.items()))
    if high:
        parts.append("orthogonal ones echo " + ", ".join("{:.3f} at R = {}".format(v, n) for n, v in high.items()))
    return {"outcome": "reproduced", "message": "; ".join(parts), "law": law}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
