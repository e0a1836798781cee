#!/usr/bin/env python3
"""Are zero, NaN and Inf counts exact above 2**24 elements?"""

import math

from forms import run_alone, verdict

PROBE = {
    "version": 2,
    "title": "Counts are rounded on large tensors",
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_answer",
    "occurs": "extreme",
    "statement_does": "converts an exact count to an inexact float",
    "motivation": "float32 holds integers exactly up to 2**24 = 16,777,216, bfloat16 up to 256. A count that passes "
    "through one of them is wrong for a single large embedding.",
    "method": "2**k + 1 zeros, NaNs or Infs are planted for growing k and must be counted exactly, or as the integer "
    "nearest to fraction times elements. The first k that fails is the boundary.",
    "limits": "If the target counts nothing in matrices, or in vectors, those are not judged. Counts above 2**24 + 1 "
    "are not tried.",
    "remediation": "Count in integers with torch.count_nonzero, add the counts of tensors as integers, and divide "
    "last, in Python.",
    "remediation_code": "remedies/gradient_counts.py",
    "measurements": {"count_error": "count"},
}

_NO_COUNTS = "its result counts no zeros, NaNs or Infs; fields: "
_EXPONENTS = (8, 11, 16, 20, 24)
_DIMENSIONS = (2, 1, 3)
# Sound elements beside the planted ones.
_OTHERS = 24
_VALUES = {"zero": (1.0, 0.0), "nan": (1.0, float("nan")), "inf": (1.0, float("inf"))}


def measure(ctx):
    """Yield the error of every kind of count at growing sizes, up to the first wrong one."""
    kinds = [kind for kind in _VALUES if kind in ctx.roles]
    if not kinds:
        raise ctx.NotApplicable(_NO_COUNTS + (", ".join(ctx.plan.fields) or "none"))
    for kind in kinds:
        counted = [each for each in _DIMENSIONS if _read_count(ctx, kind, _EXPONENTS[0], each) != 0] or [1]
        for dimensions in set(_DIMENSIONS) - set(counted):
            text = "{}s of a {}-dimensional tensor are not counted and were not judged"
            yield ctx.note(text.format(kind, dimensions))
        cases = [(_EXPONENTS[0], each) for each in counted] + [(each, counted[0]) for each in _EXPONENTS[1:]]
        for exponent, dimensions in cases:
            planted = 2**exponent + 1
            error = _read_count(ctx, kind, exponent, dimensions) - planted
            case = {"kind": kind, "as": ctx.role(kind).kind, "planted": planted, "elements": planted + _OTHERS}
            yield ctx.measurement("count_error", error, "count", dimensions=dimensions, **case)
            if error:
                if not ctx.located:
                    yield ctx.location(ctx.where("rounds_count", _planted(ctx, kind, exponent, dimensions), planted))
                break


def _planted(ctx, kind, exponent, dimensions):
    planted = 2**exponent + 1
    return ctx.special_gradients(planted + _OTHERS, *_VALUES[kind], planted, dimensions)


def _read_count(ctx, kind, exponent, dimensions):
    """Return the count in the result; a fraction is converted to the nearest number of elements."""
    role = ctx.role(kind)
    value = ctx.answer(_planted(ctx, kind, exponent, dimensions)).get(role.path)
    if value is None or not math.isfinite(value):
        return math.nan
    return round(value * (2**exponent + 1 + _OTHERS)) if role.kind == "fraction" else int(value)


def judge(measurements, policy):
    """Reproduced if any reported count differs from the planted one."""
    wrong = [m for m in measurements if m.value]
    if not wrong:
        kinds = ", ".join(sorted({m.case["kind"] for m in measurements}))
        largest = max(m.case["planted"] for m in measurements)
        return verdict(False, "{} counts are exact up to {:,}".format(kinds, largest))
    first = min(wrong, key=lambda m: m.case["planted"])
    count = "{:,}".format(first.case["planted"] + first.value) if math.isfinite(first.value) else "no number"
    others = "; ".join("{kind} {as} off by {:+,} at {planted:,}".format(m.value, **m.case) for m in wrong)
    message = "{planted:,} planted {kind}s are reported as {} ({})".format(count, others, **first.case)
    shares = [abs(m.value) / m.case["planted"] for m in wrong]
    # One too few of 16,777,217 changes no decision; a count that is 1 % off, or no number, may.
    occurs = "extreme" if all(share < 0.01 for share in shares) else "common"
    return verdict(True, message, occurs=occurs)


if __name__ == "__main__":
    run_alone(__file__)
