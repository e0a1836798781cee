#!/usr/bin/env python3
"""Does the reported norm vanish for tiny gradients that are still normal numbers?"""

import bisect
import math

from forms import by_need, rows, run_alone, unless_refused, verdict

PROBE = {
    "title": "The norm of tiny gradients reads as zero",
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_answer",
    "occurs": "extreme",
    "statement_does": "makes zeros of values that are none",
    "motivation": "The square of a float32 below 1e-23 is zero, while gradients down to 1.2e-38 are normal numbers. "
    "The norm reports vanishing gradients that did not vanish.",
    "method": "Every gradient is scaled down by powers of two within the dtype's normal range. Bisection finds the "
    "largest magnitude at which the norm reads too small by more than 1 %.",
    "limits": "A result above the truth (an epsilon) is not reported. Subnormal gradients are not tried.",
    "remediation": "Accumulate the squares in float64, inside the reduction.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"vanishing_magnitude": "magnitude", "norm": "norm", "expected_norm": "norm"},
}

TOLERANCE = 0.01
_TINY_MAGNITUDE = 1e-30
# (dtype, smallest exponent of a normal number)
_CASES = (("float32", -126), ("bfloat16", -126), ("float16", -14), ("mixed", -126))
_TENSORS, _ELEMENTS = 4, 1024
_SMALL_MAGNITUDE = 1e-8


def measure(ctx):
    """Yield the boundary for every dtype (None: there is none), and the norm at 1e-30."""
    ctx.role("norm")
    shape = {"tensors": _TENSORS, "elements": _TENSORS * _ELEMENTS}
    case = {"dtype": "float32", **shape, "magnitude": _TINY_MAGNITUDE}
    norm, expected = _norm(ctx, "float32", _TINY_MAGNITUDE), _norm(ctx, "float32", 1.0) * _TINY_MAGNITUDE
    yield from rows(ctx, PROBE, case, norm=norm, expected_norm=expected)
    for dtype, smallest in _CASES:
        found, note = unless_refused(ctx, dtype, lambda: (_boundary(ctx, dtype, smallest),))  # noqa: B023
        if note:
            yield note
            continue
        magnitude = None if found[0] is None else 2.0 ** found[0]
        yield ctx.measurement("vanishing_magnitude", magnitude, "magnitude", dtype=dtype, **shape)
        if magnitude is not None and not ctx.located:
            yield ctx.location(ctx.where("becomes_zero", ctx.gradients(_TENSORS, _ELEMENTS, dtype, 2.0**smallest)))


def _norm(ctx, dtype, magnitude):
    return ctx.norm(ctx.gradients(_TENSORS, _ELEMENTS, dtype, magnitude))


def _boundary(ctx, dtype, smallest):
    """Return the largest exponent whose norm reads too small, or None. Raises NotApplicable if it is wrong at 1."""
    base = _norm(ctx, dtype, 1.0)
    if not math.isfinite(base) or base <= 0:
        raise ctx.NotApplicable("gradients of 1 have the norm {}, nothing to compare with".format(base))

    def vanishes(exponent):
        # Written so that NaN, which compares false with everything, counts as vanished.
        return not _norm(ctx, dtype, 2.0**exponent) >= base * 2.0**exponent * (1 - TOLERANCE)

    if not vanishes(smallest):
        return None
    return -1 - bisect.bisect_left(range(-1, smallest, -1), True, key=vanishes)


def judge(measurements, policy):
    """Reproduced if the norm of normal gradients of a judged dtype is too small."""
    found = [m for m in measurements if m.name == "vanishing_magnitude" and m.value is not None]
    if not found:
        return verdict(False, "the norm is right down to the smallest normal gradients")
    worst = max(found, key=lambda m: m.value)
    dtypes = ", ".join(sorted({m.case["dtype"] for m in found}))
    message = "gradients of {:.3g} and below read too small in {}; the norm of {} is affected"
    # Elements of 1e-4 are ordinary, and their squares are too small for float16; 1e-23 is no ordinary gradient.
    occurs = by_need(found, lambda m: "common" if m.value > _SMALL_MAGNITUDE else "extreme")
    return verdict(True, message.format(worst.value, worst.case["dtype"], dtypes), occurs=occurs)


if __name__ == "__main__":
    run_alone(__file__)
