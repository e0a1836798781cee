#!/usr/bin/env python3
"""Do gradients in another memory layout raise, or change the answer?"""

import math

from forms import run_alone

PROBE = {
    "version": 2,
    "title": "Non-contiguous gradients raise or change the result",
    "categories": ["Correctness bug", "API design / contract violation"],
    "breaks": "wrong_norm",
    "occurs": "common",
    "motivation": "Autograd gives a gradient the strides of its parameter: convolutions in channels_last and "
    "transposed weights have non-contiguous gradients, and view(-1) raises on them.",
    "method": "One of three gradients is laid out as channels_last, transposed, permuted, a view of a bucket, a slice "
    "with steps, expanded or overlapping. Every field, and the norm afterwards of a target that writes, must be that "
    "of the contiguous values within 1e-4.",
    "limits": "Fields that speak of layout or differ between equal calls are left out, as is a layout that no field "
    "depends on. backward() copies expanded and sliced gradients. Targets that write get no expanded or overlapping "
    "ones.",
    "remediation": "Use operators that take any strides (torch.linalg.vector_norm, torch._foreach_norm, "
    "torch.count_nonzero); flatten with reshape(-1), not view(-1).",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"sound": "truth"},
}

# backward() leaves gradients laid out like these, after their parameters.
_FROM_BACKWARD = ("channels_last", "transposed", "permuted")
_LOUD = ("raises", "refuses")
_NOT_WRITABLE = ("expanded", "overlapping")
_LAYOUT_WORDS = ("contig", "stride", "layout", "offset")
# One of them moves a norm, a count of zeros or of what is not finite.
_FACTORS = (64.0, 0.0, math.nan)
_TOLERANCE = 1e-4
_AFTERWARDS = "the gradients' norm afterwards"


def measure(ctx):
    """Yield for every layout whether the answer is the contiguous one, and what happened where it is not."""
    refused, judged = [], False
    # What we made of a gradient for the target to read has the gradient's layout by our doing, not by backward's.
    filled = [name for name, value in ctx.plan.filled.items() if "gradient" in str(value)]
    made = {"read_from": ", ".join(filled)} if filled else {}
    for layout in ctx.layouts:
        if layout in _NOT_WRITABLE and ctx.writes_gradients:
            continue
        try:
            expected, again = (_ask(ctx, ctx.laid_out(layout, contiguous=True)) for _ in range(2))
        except ctx.TargetRaised as error:
            refused.append(error)
            yield ctx.note("{} was not judged: the same values contiguous raise {}".format(layout, error))
            continue
        ignored = ctx.unequal_fields(expected, again)
        if not _is_read(ctx, layout, expected, ignored):
            yield ctx.note("{} was not judged: the answer does not follow such a gradient".format(layout))
            continue
        how, error = _difference(ctx, layout, expected, ignored)
        yield ctx.measurement("sound", not how, "truth", layout=layout, how=how or "as contiguous", **made)
        if how and not ctx.located:
            grads = ctx.laid_out(layout), ctx.laid_out(layout, contiguous=True)
            yield ctx.location(ctx.where_different(*grads) if error is None else error.site)
        judged = True
    if len(refused) == len(ctx.layouts):
        raise refused[0]
    if not judged:
        raise ctx.NotApplicable("its answer follows none of the gradients that are laid out in another way")


def _is_read(ctx, layout, expected, ignored):
    """Whether the answer follows the values of a contiguous gradient of the same shape."""
    try:
        others = (_ask(ctx, ctx.laid_out(layout, True, factor)) for factor in _FACTORS)
        return any(set(ctx.differences(expected, other)) - set(ignored) for other in others)
    except ctx.TargetRaised:
        return True


def _ask(ctx, grads):
    """The answer, and for a target that writes what it made of the gradients: a copy of them may have been written."""
    answer = ctx.answer(grads)
    if ctx.writes_gradients:
        answer[_AFTERWARDS] = ctx.exact_norm(grads)
    return answer


def _difference(ctx, layout, expected, ignored):
    """What is wrong with the answer for `layout`, "" for nothing, and the error where it raised."""
    try:
        answer = _ask(ctx, ctx.laid_out(layout))
    except ctx.TargetRaised as error:
        return ("refuses: " if error.deliberate else "raises ") + str(error).split(" (")[0].split(". ")[0][:160], error
    wrong = [
        "{} {} instead of {}".format(path or "the answer", _text(answer.get(path, "missing")), _text(expected[path]))
        for path in ctx.differences(expected, answer)
        if path not in ignored and not _speaks_of_layout(path) and _far(answer.get(path), expected[path])
    ]
    return ", ".join(wrong[:3]), None


def _text(value):
    return "{:.6g}".format(value) if isinstance(value, float) else str(value)


def _speaks_of_layout(path):
    return any(word in path.lower() for word in _LAYOUT_WORDS)


def _far(value, expected):
    if value is None or isinstance(expected, bool) or not (math.isfinite(value) and math.isfinite(expected)):
        return True
    if isinstance(expected, int) and isinstance(value, int):
        return True
    return abs(value - expected) > _TOLERANCE * max(abs(value), abs(expected)) + 1e-6


def judge(measurements, policy):
    """Reproduced where any layout raised or changed the answer."""
    broken = [m for m in measurements if not m.value]
    if not broken:
        return {
            "outcome": "not_reproduced",
            "message": "{} gradients give the answer of contiguous ones".format(
                ", ".join(m.case["layout"] for m in measurements)
            ),
        }
    grouped = {}
    for m in broken:
        grouped.setdefault(m.case["how"], []).append(m.case["layout"])
    message = "; ".join("{}: {}".format(", ".join(layouts), how) for how, layouts in list(grouped.items())[:4])
    unmeant = [m for m in broken if not m.case["how"].startswith("refuses") and "read_from" not in m.case]
    verdict = {"outcome": "reproduced", "message": message}
    verdict["breaks"] = "stops" if all(m.case["how"].startswith(_LOUD) for m in broken) else "wrong_norm"
    verdict["occurs"] = "common" if any(m.case["layout"] in _FROM_BACKWARD for m in unmeant) else "extreme"
    return verdict


if __name__ == "__main__":
    run_alone(__file__)
