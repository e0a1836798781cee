#!/usr/bin/env python3
"""Do the same gradients, split into other tensors or listed in another order, give another norm?"""

import functools
import math

from forms import by_need, run_alone, unless_refused, verdict, who_meets_error

PROBE = {
    "title": "The norm depends on how the gradients are grouped",
    "categories": ["Numerical stability", "Correctness bug"],
    "breaks": "wrong_norm",
    "occurs": "rare",
    "statement_does": "gives the first value that is off",
    "motivation": "A norm of norms that are kept in 16 bits is rounded once for each tensor: fused or re-sharded "
    "layers log other norms and clip differently (pytorch/pytorch PR 194033).",
    "method": "The same elements as one tensor, as equal and as unequal pieces, and the same tensors in three orders, "
    "in every dtype. Judged where the result is the total 2-norm, or does not depend on the split (or order) in "
    "float32.",
    "limits": "A formula that depends on the split is judged on the order only, one that singles out tensors on "
    "neither. A total on the border of two 16-bit numbers may round either way.",
    "remediation": "Keep the norms of single tensors in float32 or wider until the total is formed, and round once, if "
    "at all.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"split_difference": "ratio", "order_difference": "ratio", "allowed_difference": "ratio"},
    "policy": {"accumulators": 4, "roundings": 0},
}

_DTYPES = ("float32", "bfloat16", "float16", "float64")
# 258 ones have the norm 16.0624, just below the middle of two bfloat16 numbers (16 and 16.125): rounding changes it by
# 0.39 %. 1,025 have 32.0156, in the middle of two float16 numbers (32 and 32.03125): by 0.049 %.
_PIECES = ((258, 3), (258, 5), (1025, 6), (1025, 10))
_ORDERED_TENSORS, _ORDERED_ELEMENTS = 384, 64
# A mean over tensors or a largest tensor differs by a third at least, rounding every step to bfloat16 by 1.6 % at most:
# a larger difference in float32 is the formula's own.
_BY_FORMULA = 2.0**-6
_ORDINARY = ((4, 1024), (16, 64), (3, 500))


def measure(ctx):
    """Yield the largest difference between groupings and between orders, for every dtype."""
    ctx.role("norm")
    # Whether the norm is the total 2-norm on ordinary float32 gradients, split in three ways.
    made = [ctx.known_norm("random", tensors, elements) for tensors, elements in _ORDINARY]
    is_total = all(abs(ctx.norm(grads) / exact - 1) <= _BY_FORMULA for grads, exact in made)
    worst, judged = (0.0, 0.0, None), False
    for kind, (of, judged_else, _, groupings) in _KINDS.items():
        by_formula, _ = _largest(ctx, groupings(ctx, "float32"))
        if not is_total and not by_formula <= _BY_FORMULA:
            is_number = math.isfinite(by_formula)
            how = "{:.3g} % in float32".format(100 * by_formula) if is_number else "it is 0 for equal elements"
            yield ctx.note("its formula depends on the {} ({}): {}".format(of, how, judged_else))
            continue
        judged = True
        for dtype in _DTYPES:
            found, note = unless_refused(ctx, dtype, lambda: _largest(ctx, groupings(ctx, dtype)))  # noqa: B023
            if not note and not math.isfinite(found[0]):
                note = ctx.note("{} gradients were not judged: their norm is not finite".format(dtype))
            if note:
                yield note
                continue
            (difference, make), allowed = found, _allowed(dtype, PROBE["policy"])
            yield ctx.measurement(kind, difference, "ratio", dtype=dtype)
            yield ctx.measurement("allowed_difference", allowed, "ratio", dtype=dtype, of=kind)
            if difference > allowed and difference / allowed > worst[0]:
                worst = (difference / allowed, difference, make)
    if not judged:
        raise ctx.NotApplicable("its norm depends on the split and on the order by its formula, also in float32")
    if worst[2] is not None:
        yield ctx.location(ctx.where_imprecise(worst[2](), worst[1] / 4))


def _largest(ctx, groupings):
    """Return the largest relative difference to a family's first grouping, and the maker of its gradients.

    Every call gets new gradients: a clipping target changes them.
    """
    largest = (0.0, None)
    for first, *others in groupings:
        expected = ctx.norm(first())
        for make in others:
            value = ctx.norm(make())
            if not (math.isfinite(value) and math.isfinite(expected) and expected):
                return math.inf, make
            largest = max(largest, (abs(value / expected - 1), make), key=lambda found: found[0])
    return largest


def _splits(ctx, dtype):
    """Return ones in one tensor, in equal pieces, and in pieces of which each has half the size of the one before."""
    for size, count in _PIECES:
        left, uneven = size * count, []
        while left > 1:
            uneven.append((left + 1) // 2)
            left -= uneven[-1]
        for sizes in ([size] * count, [*uneven, left]):
            yield [functools.partial(_ones, ctx, each, dtype) for each in ([size * count], sizes)]


def _ones(ctx, sizes, dtype):
    return ctx.regrouped(ctx.known_norm("equal", 1, sum(sizes), dtype)[0], sizes)


def _orders(ctx, dtype):
    """Return the same tensors forwards, backwards and shuffled: 125 and 384 have no common factor."""
    n = _ORDERED_TENSORS
    orders = range(n), range(n - 1, -1, -1), [(index * 125 + 7) % n for index in range(n)]
    for pattern in ("random", "outlier_tensor"):
        grads, _ = ctx.known_norm(pattern, n, _ORDERED_ELEMENTS, dtype)
        yield [lambda order=order, grads=grads: [grads[index].clone() for index in order] for order in orders]


# What the gradients are grouped by, what is judged where the formula depends on it, how a message begins, and how.
_KINDS = {
    "split_difference": (
        "split", "only the order was judged", "splitting the same gradients into other tensors", _splits),
    "order_difference": ("order", "the order was not judged", "listing them in another order", _orders),
}  # fmt: skip


def _allowed(dtype, policy):
    """Return the allowed difference of two accurate results: twice the error of a float32 sum of the largest case.

    The largest split case is one tensor of 10,250 elements, added in four accumulators (see norm_loses_accuracy); each
    step is off by at most 2**-24 of the sum, half of that in the root. If the policy accepts norms of norms in 16 bits,
    each side may also have `roundings` to that type (2**-8 in bfloat16, 2**-11 in float16).
    """
    steps = max(size * count for size, count in _PIECES) / policy["accumulators"] + _ORDERED_TENSORS + 16
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(dtype, 0.0)
    return 2 * (steps * 2.0**-25 + policy["roundings"] * unit)


def judge(measurements, policy):
    """Reproduced if a difference is above the allowed one."""
    differences = [m for m in measurements if m.name in _KINDS]
    broken = [m for m in differences if m.value > _allowed(m.case["dtype"], policy)]
    if not broken:
        largest = max((m.value for m in differences), default=0.0)
        words = " and ".join(_KINDS[kind][2] for kind in dict.fromkeys(m.name for m in differences))
        return verdict(False, "{} changes the norm by {:.2g} at most: rounding".format(words, largest))
    parts = {}
    for m in broken:
        parts.setdefault(_KINDS[m.name][2], []).append("{:.2g} % in {}".format(100 * m.value, m.case["dtype"]))
    message = "; ".join("{} changes the norm by {}".format(words, ", ".join(found)) for words, found in parts.items())
    return verdict(True, message, occurs=by_need(broken, lambda m: who_meets_error(m.value)))


if __name__ == "__main__":
    run_alone(__file__)
