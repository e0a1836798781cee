#!/usr/bin/env python3
"""How far is the reported norm from the exact one, and is that more than rounding can explain?"""

import functools
import math

from forms import by_need, rows, run_alone, unless_refused, verdict, who_meets_error

PROBE = {
    "version": 2,
    "title": "The norm loses accuracy",
    "categories": ["Numerical stability", "Correctness bug"],
    "breaks": "wrong_norm",
    "occurs": "rare",
    "statement_does": "gives the first value that is off",
    "motivation": "Adding in 16 bits stops where the sum is 256 (bfloat16) or 2,048 (float16) times the next term: a "
    "thousand equal layers read half their norm, and nothing warns.",
    "method": "Gradients of known norm: random, equal, one heavy element, one heavy tensor, in every dtype, and "
    "16,777,216 float32 elements around 1. The result is compared with the exact norm, or a fixed multiple of it; "
    "otherwise with the result in float64. The bound allows float32 sums with four accumulators and three roundings "
    "to 16 bits.",
    "limits": "Another formula is judged only on gradients with an outlier. A norm in the gradients' own 16-bit type "
    "is accepted. float64 is judged as float32, unless judge_float64 is set. Results of inf, NaN or 0 are left to "
    "other probes.",
    "remediation": "Take norms of 16-bit gradients with a wider dtype inside the reduction, and add their squares in "
    "float64: torch._foreach_norm(grads, 2, dtype=torch.float64).",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"relative_error": "ratio", "allowed_error": "ratio", "largest_error": "ratio"},
    "policy": {"accumulators": 4, "roundings": 3, "judge_float64": 0, "spread_error": 0.001},
}

# (dtype, pattern, tensors, elements of each, magnitude). 16-bit norms stay below float16's largest, 65,504.
_CASES = (
    ("float32", "random", 4, 1024, 1.0),
    ("float32", "random", 256, 256, 1.0),
    ("float32", "outlier_tensor", 1024, 256, 1.1),
    ("float32", "equal", 1, 1 << 20, 1.1),
    ("float32", "outlier_element", 1, 1 << 22, 1.0),
    ("float32", "spread", 1, 1 << 24, 1.0),
    ("bfloat16", "random", 4, 1024, 1.0),
    ("bfloat16", "random", 256, 256, 1.0),
    ("bfloat16", "outlier_tensor", 1024, 256, 1.1),
    ("bfloat16", "equal", 1, 1 << 20, 1.1),
    ("bfloat16", "outlier_element", 1, 1 << 22, 1.0),
    ("float16", "random", 4, 1024, 1e-3),
    ("float16", "random", 256, 256, 1.0),
    ("float16", "outlier_tensor", 1024, 256, 1.1),
    ("float16", "equal", 1, 1 << 20, 1.1e-3),
    ("float16", "outlier_element", 1, 1 << 22, 1.0),
    ("mixed", "random", 4, 1024, 1.0),
    ("mixed", "outlier_tensor", 1024, 256, 1.1),
    ("float64", "random", 4, 1024, 1.0),
    ("float64", "outlier_element", 1, 1 << 20, 1.0),
)
# Shapes that identify the formula: the total 2-norm, or a fixed multiple of it, has one ratio for all three. A
# mean over tensors or elements differs by a third at least, rounding every step to bfloat16 by 1.6 % at most.
_ORDINARY = ((4, 1024), (16, 64), (3, 500))
_SAME_FORMULA = 2.0**-6
# Cases for an unknown formula. The spread of nearly equal layers is their difference: it loses more than the bound
# allows however it is computed.
_UNEVEN = ("outlier_element", "outlier_tensor")


def measure(ctx):
    """Yield error and allowed error of every case, the largest error of every dtype, and where the worst arises."""
    ctx.role("norm")
    multiple = _multiple_of_the_total(ctx)
    if multiple is None:
        yield ctx.note("its norm is not the total 2-norm: compared with its own result for the same values as float64")
    worst, refused = {}, set()
    for dtype, pattern, tensors, elements, magnitude in _CASES:
        if dtype in refused or (multiple is None and pattern not in _UNEVEN):
            continue
        case = {"dtype": dtype, "pattern": pattern, "tensors": tensors, "elements": tensors * elements}
        make = functools.partial(ctx.known_norm, pattern, tensors, elements, dtype, magnitude)
        found, note = unless_refused(ctx, dtype, lambda: _norm_and_truth(ctx, make, multiple))  # noqa: B023
        if note:
            refused.add(dtype)
            yield note
            continue
        value, expected = found
        error = value / expected - 1 if expected and math.isfinite(expected) else math.nan
        allowed = _allowed(case, PROBE["policy"])
        if abs(error) > allowed and not _follows(ctx, (pattern, tensors, elements, dtype, magnitude), value, multiple):
            yield ctx.note("{} was not judged: {:.4g} does not follow the gradients' size".format(pattern, value))
            continue
        yield from rows(ctx, PROBE, case, relative_error=error, allowed_error=allowed)
        # inf and NaN are overflows, 0 is an underflow: other probes judge these.
        if math.isfinite(value) and value > 0 and math.isfinite(error):
            worst.setdefault(dtype, []).append((abs(error) / allowed, abs(error), make))
    for dtype, errors in worst.items():
        yield ctx.measurement("largest_error", max(error for _, error, _ in errors), "ratio", dtype=dtype)
    # The worst judged case of a dtype that training uses; its line is where half of its error has arisen.
    cases = [case for dtype, errors in worst.items() if dtype != "float64" for case in errors if case[0] > 1]
    if cases:
        _, error, make = max(cases, key=lambda case: case[0])
        yield ctx.location(ctx.where_imprecise(make()[0], error / 2))


def _multiple_of_the_total(ctx):
    """Return the ratio of the result to the exact 2-norm; None if it differs between shapes."""
    ratios = []
    for tensors, elements in _ORDINARY:
        grads, exact = ctx.known_norm("random", tensors, elements)
        ratios.append(ctx.norm(grads) / exact)
    low, high = min(ratios), max(ratios)
    if not (low > 0 and math.isfinite(high) and high / low - 1 <= _SAME_FORMULA):
        return None
    is_total = abs(low - 1) <= _SAME_FORMULA and abs(high - 1) <= _SAME_FORMULA
    return 1.0 if is_total else sum(ratios) / len(ratios)


def _follows(ctx, known, value, multiple):
    """Return whether gradients of half the size have another norm; for an unknown formula, half of it or a quarter.

    Halving is exact in every dtype. A bound, a logarithm and a number added to parameters are no norms.
    """
    *shape, magnitude = known
    half = ctx.norm(ctx.known_norm(*shape, magnitude / 2)[0])
    if multiple is not None:
        return half != value
    return any(abs(half * factor - value) <= 1e-3 * abs(value) for factor in (2.0, 4.0))


def _norm_and_truth(ctx, make, multiple):
    """Return the target's norm and the exact one; for an unknown formula, its own result for float64 gradients."""
    grads, exact = make()
    value = ctx.norm(grads)
    if multiple is not None:
        return value, multiple * exact
    try:
        return value, ctx.norm([grad.double() for grad in make()[0]])
    except ctx.TargetRaised as error:
        reason = "its norm is not the total 2-norm, and it takes no float64 gradients to compare with: {}"
        raise ctx.NotApplicable(reason.format(error)) from error


def _allowed(case, policy):
    """The largest relative error of a careful norm.

    Adding m positive terms one after another in float32, rounded to nearest, is off by at most m * 2**-24 of their
    sum (Jeannerod and Rump, 2013: without terms of higher order), so the root by 1 - sqrt(1 - m * 2**-24).
    torch adds the squares of a contiguous tensor on the CPU in one vector register: 16 lanes with AVX-512, 8 with
    AVX2, 4 with NEON. The fewest are allowed for: elements / 4 additions each, then one for each tensor. 16 more
    steps are squares, roots and the joining of the lanes. CUDA adds in a tree and stays far below. So torch's own
    float32 norms are inside the bound on each of them, as are those of several threads, which add less each.

    A 16-bit result adds one rounding for each norm that is stored in 16 bits: of a tensor, of the total, and half
    of one for each of square and sum between them; 2**-8 each in bfloat16, 2**-11 in float16. So
    torch.nn.utils.clip_grad_norm_, whose norms of bfloat16 gradients are bfloat16, is accepted.

    The bound is for roundings that all go one way. Those of a spread do not: of 16,777,216 elements float32 sums with
    4, 8 and 16 lanes read 0.008 %, 0.019 % and 0.007 % off (8 are torch 2.13 with AVX2), in 2 and in 1 0.21 % and
    0.46 %.
    """
    dtype, tensors = case["dtype"], case["tensors"]
    steps = case["elements"] // tensors / policy["accumulators"] + tensors + 16
    if dtype == "float64" and policy["judge_float64"]:
        return steps * 2.0**-54
    summing = 1.0 - math.sqrt(max(0.0, 1.0 - steps * 2.0**-24))
    unit = {"bfloat16": 2.0**-8, "mixed": 2.0**-8, "float16": 2.0**-11}.get(dtype, 0.0)
    allowed = summing + policy["roundings"] * unit
    return min(allowed, policy["spread_error"]) if case["pattern"] == "spread" else allowed


def judge(measurements, policy):
    """Reproduced if an error is above the allowed one."""
    errors = [m for m in measurements if m.name == "relative_error" and math.isfinite(m.value) and m.value > -1]
    rated = [(abs(m.value) / _allowed(m.case, policy), m) for m in errors]
    broken = [(excess, m) for excess, m in rated if excess > 1]
    if not broken:
        _, largest = max(rated, key=lambda rating: abs(rating[1].value))
        message = "the norm is within rounding of the exact one: off by {:.2g} at most, where {:.2g} is allowed"
        return verdict(False, message.format(abs(largest.value), _allowed(largest.case, policy)))
    _, worst = max(broken, key=lambda rating: abs(rating[1].value))
    message = (
        "the norm is off by {:.3g} % in {dtype} ({elements:,} elements in {tensors:,} tensors, {}); {:.2g} % is "
        "allowed; broken for {}"
    )
    dtypes = ", ".join(sorted({m.case["dtype"] for _, m in broken}))
    how = _WORDS[worst.case["pattern"]]
    message = message.format(100 * worst.value, how, 100 * _allowed(worst.case, policy), dtypes, **worst.case)
    return verdict(True, message, occurs=by_need([m for _, m in broken], lambda m: who_meets_error(abs(m.value))))


_WORDS = {
    "random": "random",
    "spread": "spread around 1",
    "equal": "all equal",
    "outlier_element": "one element as heavy as the rest",
    "outlier_tensor": "one tensor as heavy as the rest",
}


if __name__ == "__main__":
    run_alone(__file__)
