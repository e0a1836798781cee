#!/usr/bin/env python3
"""Do the same gradients, split into other tensors or listed in another order, give another norm?"""

import functools
import math

from forms import run_alone, unless_refused, verdict

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
# 258 ones have the norm 16.0624, just below the middle of two bfloat16 numbers (16 and 16.125): rounding it is off
# by 0.39 %. 1,025 have 32.0156, in the middle of two float16 numbers (32 and 32.03125): off by 0.049 %.
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
    for kind, compare in (("split_difference", _over_splits), ("order_difference", _over_orders)):
        by_formula, _ = compare(ctx, "float32")
        if not is_total and not by_formula <= _BY_FORMULA:
            is_number = math.isfinite(by_formula)
            how = "{:.3g} % in float32".format(100 * by_formula) if is_number else "it is 0 for equal elements"
            yield ctx.note(_NOTES[kind].format(how))
            continue
        judged = True
        for dtype in _DTYPES:
            found, note = unless_refused(ctx, dtype, lambda: compare(ctx, dtype))  # noqa: B023
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


_NOTES = {
    "split_difference": "its formula depends on the split ({}): only the order was judged",
    "order_difference": "its formula depends on the order ({}): the order was not judged",
}


def _over_splits(ctx, dtype):
    """(the largest relative difference to the whole, what makes the gradients split so) over several splits of ones."""
    largest = (0.0, None)
    for size, count in _PIECES:
        expected = ctx.norm(_ones(ctx, [size * count], dtype))
        for sizes in _splits(size, count):
            make = functools.partial(_ones, ctx, sizes, dtype)
            largest = _larger(largest, ctx.norm(make()), expected, make)
    return largest


def _ones(ctx, sizes, dtype):
    """Made anew for every call, as every gradient here: a clipping target changes them."""
    return ctx.regrouped(ctx.known_norm("equal", 1, sum(sizes), dtype)[0], sizes)


def _splits(size, count):
    """Sizes of the pieces: all equal; half as many and then ever smaller ones."""
    total, uneven = size * count, []
    while total > 1:
        uneven.append((total + 1) // 2)
        total -= uneven[-1]
    return [size] * count, [*uneven, total]


def _over_orders(ctx, dtype):
    """(the largest relative difference, what makes the worst order) over several orders of the same tensors."""
    largest = (0.0, None)
    for pattern in ("random", "outlier_tensor"):
        expected = None
        grads, _ = ctx.known_norm(pattern, _ORDERED_TENSORS, _ORDERED_ELEMENTS, dtype)
        for order in _ORDERS:
            make = functools.partial(_ordered, grads, order)
            value = ctx.norm(make())
            expected = value if expected is None else expected
            largest = _larger(largest, value, expected, make)
    return largest


def _ordered(grads, order):
    return [grads[index].clone() for index in order(len(grads))]


_ORDERS = (
    lambda n: range(n),
    lambda n: range(n - 1, -1, -1),
    lambda n: [(index * 125 + 7) % n for index in range(n)],  # 125 and 384 have no common factor
)


def _larger(largest, value, expected, make):
    if not (math.isfinite(value) and math.isfinite(expected) and expected):
        return math.inf, make
    difference = abs(value / expected - 1)
    return (difference, make) if difference > largest[0] else largest


def _allowed(dtype, policy):
    """What two accurate answers may differ by: twice the error of a float32 sum of the largest case.

    The largest split case is one tensor of 10,250 elements, added in four accumulators (see norm_loses_accuracy);
    each step is off by at most 2**-24 of the sum, half of that in the root. `roundings` to the 16-bit type (2**-8
    in bfloat16, 2**-11 in float16) are allowed on each side where the policy accepts norms of norms in 16 bits.
    """
    steps = max(size * count for size, count in _PIECES) / policy["accumulators"] + _ORDERED_TENSORS + 16
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(dtype, 0.0)
    return 2 * (steps * 2.0**-25 + policy["roundings"] * unit)


def judge(measurements, policy):
    """Reproduced where a difference is above the allowed one."""
    kinds = ("split_difference", "order_difference")
    differences = [m for m in measurements if m.name in kinds]
    broken = [m for m in differences if m.value > _allowed(m.case["dtype"], policy)]
    if not broken:
        largest = max((m.value for m in differences), default=0.0)
        words = " and ".join(_WORDS[kind] for kind in kinds if any(m.name == kind for m in differences))
        message = "{} changes the norm by {:.2g} at most: rounding".format(words, largest)
        return verdict(False, message)
    parts = []
    for kind in kinds:
        found = [m for m in broken if m.name == kind]
        if found:
            listed = ", ".join("{:.2g} % in {}".format(100 * m.value, m.case["dtype"]) for m in found)
            parts.append("{} changes the norm by {}".format(_WORDS[kind], listed))
    largest = max(m.value for m in broken)
    # A factor of clipping that is 1 % off trains the same; one of 10 % is another learning rate.
    occurs = "common" if largest > 0.1 else "rare" if largest > 0.01 else "extreme"
    return verdict(True, "; ".join(parts), occurs=occurs)


_WORDS = {
    "split_difference": "splitting the same gradients into other tensors",
    "order_difference": "listing them in another order",
}


if __name__ == "__main__":
    run_alone(__file__)
