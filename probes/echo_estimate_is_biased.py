#!/usr/bin/env python3
"""Is the echo of identical replicas 1 and of orthogonal ones 0, for every number of replicas?"""

import math

from forms import rows, run_alone, verdict

PROBE = {
    "title": "The spectral echo depends on the number of replicas",
    "contracts": ["spectral_echo"],
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_answer",
    "occurs": "common",
    "devices": ["cuda", "cpu"],
    "motivation": "An estimate that divides a sum over triples of replicas by a sum over all pairs reads sqrt(1 - 2/R) "
    "for identical replicas: 0.58 for 3 and 0.87 for 8, so runs cannot be compared.",
    "method": "Echoes of R identical replicas must be 1, and of R orthogonal ones 0, for R = 2, 3, 4, 8, 16 and 32. A "
    "ValueError that refuses too few replicas is no finding.",
    "limits": "Only these two ends are tested. Factors are aligned by the best assignment to the first replica.",
    "remediation": "Sum numerator and denominator over the same triples of different replicas, and refuse fewer than "
    "three.",
    "remediation_code": "remedies/spectral_echoes.py",
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
            same = ctx.echoes(ctx.matrices("identical", count, count * _COLUMNS, _COLUMNS))
            apart = ctx.echoes(ctx.matrices("orthogonal", count, _COLUMNS))
        except ctx.TargetRaised as error:
            if not (error.deliberate and "ValueError" in str(error)):
                raise
            yield ctx.measurement("refused", True, "truth", replicas=count, how=str(error)[:160])
            continue
        answered += 1
        echoes = {"echo_of_identical": _farthest(same, 1.0), "echo_of_orthogonal": _farthest(apart, 0.0)}
        yield from rows(ctx, PROBE, {"replicas": count}, refused=False, **echoes)
    if not answered:
        raise ctx.NotApplicable("it refuses every number of replicas up to {}".format(_COUNTS[-1]))
    yield ctx.location(ctx.definition())


def _farthest(echoes, truth):
    """Return the value farthest from the truth; NaN if any value is NaN."""
    values = echoes.flatten().tolist()
    broken = [value for value in values if math.isnan(value)]
    return broken[0] if broken else max(values, key=lambda value: abs(value - truth))


def judge(measurements, policy):
    """Reproduced if an accepted R gives an echo other than 1 for identical replicas, or than 0 for orthogonal ones."""
    same = {m.case["replicas"]: m.value for m in measurements if m.name == "echo_of_identical"}
    apart = {m.case["replicas"]: m.value for m in measurements if m.name == "echo_of_orthogonal"}
    low = {count: value for count, value in same.items() if not abs(value - 1) <= policy["tolerance"]}
    high = {count: value for count, value in apart.items() if not abs(value) <= policy["orthogonal_tolerance"]}
    law = ", ".join("{:.3f} at R = {}".format(value, count) for count, value in same.items())
    if not low and not high:
        message = "identical replicas echo 1 and orthogonal ones 0 from R = {} on".format(min(same))
        return verdict(False, message, law=law)
    parts = []
    if low:
        parts.append("identical replicas echo " + ", ".join("{:.3f} at R = {}".format(v, n) for n, v in low.items()))
    if high:
        parts.append("orthogonal ones echo " + ", ".join("{:.3f} at R = {}".format(v, n) for n, v in high.items()))
    return verdict(True, "; ".join(parts), law=law)


if __name__ == "__main__":
    run_alone(__file__)
