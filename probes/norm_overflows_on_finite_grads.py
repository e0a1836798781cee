#!/usr/bin/env python3
"""Does the reported norm break on large finite gradients whose true norm float32 can hold?"""

import bisect
import math

from forms import LARGE_MAGNITUDE, attempt, boundaries, by_need, judged_boundaries, run_alone, verdict, who_meets_norm

PROBE = {
    "version": 3,
    "title": "The norm overflows on finite gradients",
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_norm",
    "occurs": "rare",
    "statement_does": "gives the first value that is not finite",
    "motivation": "Squaring overflows long before the norm does: at one element of 256 in float16, at a norm of "
    "1.84e19 in float32. The norm reads inf, and a clip coefficient made from it zeroes every gradient.",
    "method": "Every gradient is scaled by powers of two. Bisection finds the smallest magnitude at which the norm is "
    "infinite, NaN, raises, or is off by more than 1 %, for each dtype and element count.",
    "limits": "A value that follows the norm up to a bound is clamped on purpose and not judged. float64 is judged "
    "only with judge_float64.",
    "remediation": "Accumulate the squares in float64, inside the reduction. torch._foreach_norm without dtype squares "
    "in float32.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {
        "breaking_magnitude": "magnitude",
        "breaking_norm": "norm",
        "norm": "norm",
        "expected_norm": "norm",
    },
    "policy": {"judge_float64": 0},
}

TOLERANCE = 0.01


def measure(ctx):
    """Yield the boundary of every case (None: there is none), and the norm at 1e20."""
    ctx.role("norm")
    case = {"dtype": "float32", "tensors": 4, "elements": 4096, "magnitude": LARGE_MAGNITUDE}
    yield ctx.measurement("norm", _norm(ctx, (4, 1024, "float32"), LARGE_MAGNITUDE), "norm", **case)
    expected = _norm(ctx, (4, 1024, "float32"), 1.0) * LARGE_MAGNITUDE
    yield ctx.measurement("expected_norm", expected, "norm", **case)
    yield from boundaries(ctx, "breaking", lambda shape, largest: (_boundary(ctx, shape, largest), {}))


def _is_off(value, expected):
    return not math.isfinite(value) or abs(value / expected - 1) > TOLERANCE


def _norm(ctx, shape, magnitude):
    """Return the reported norm; NaN if the target raises on valid gradients."""
    norm, error = attempt(ctx, lambda: ctx.norm(ctx.gradients(*shape, magnitude)))
    return math.nan if error is not None else norm


def _boundary(ctx, shape, largest):
    """Return the smallest exponent that breaks, or None; 0 if the norm is wrong for ordinary gradients."""
    reference = _reference(ctx, shape)
    if reference is None:
        return 0
    start, base = reference

    def breaks(exponent):
        return _is_off(_norm(ctx, shape, 2.0**exponent), base * 2.0 ** (exponent - start))

    if not breaks(largest):
        return None
    broken = start + 1 + bisect.bisect_left(range(start + 1, largest), True, key=breaks)
    bound, at_last = (_norm(ctx, shape, 2.0**exponent) for exponent in (broken, largest))
    # An overflow jumps; a clamp continues from the last right value to a bound that it keeps.
    if bound == at_last and 0.5 - TOLERANCE <= bound / (base * 2.0 ** (broken - start)) <= 1.0:
        raise ctx.NotApplicable("its norm is clamped to {:g} on purpose: there is no norm above it".format(bound))
    return broken


def _reference(ctx, shape):
    """Return an exponent at which the norm is finite and positive, and the norm; None if there is none.

    Raises NotApplicable if the result contains no norm.
    """
    for exponent in (0, -4, -8, -12):
        value = ctx.norm(ctx.gradients(*shape, 2.0**exponent))
        if value - value and ctx.number("norm", ctx.gradients(*shape, 2.0**exponent)) is None:
            raise ctx.NotApplicable("the result holds no norm")
        if math.isfinite(value) and value > 0:
            return exponent, value
    return None


def judge(measurements, policy):
    """Reproduced if a dtype that training uses breaks below its own range."""
    judged = judged_boundaries(measurements, "breaking_norm", policy)
    if not judged:
        return verdict(False, "the norm is right up to the largest one that float32 holds")
    worst = min(judged, key=lambda m: m.value)
    lowest, dtypes = {}, {}
    for m in judged:
        lowest[m.case["dtype"]] = min(m.value, lowest.get(m.case["dtype"], math.inf))
    for dtype, norm in sorted(lowest.items()):
        dtypes.setdefault(norm, []).append(dtype)
    elements = "{:,} elements of {:.3g}".format(worst.case["elements"], worst.value / math.sqrt(worst.case["elements"]))
    places = ["{:.3g} in {}".format(norm, ", ".join(dtypes[norm])) for norm in sorted(dtypes)]
    text = "the norm breaks at {} ({})".format(" and at ".join(places), elements)
    return verdict(True, text, occurs=by_need(judged, who_meets_norm))


if __name__ == "__main__":
    run_alone(__file__)
