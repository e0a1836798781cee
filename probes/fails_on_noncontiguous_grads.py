#!/usr/bin/env python3
"""Do gradients in another memory layout raise, or change the result?"""

import math

from forms import attempt, compare_forms, grouped, is_read, run_alone, text, verdict, with_norm_afterwards

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
    "limits": "Fields about the layout and fields that differ between equal calls are left out, as is a layout that no "
    "field "
    "depends on. backward() copies expanded and sliced gradients. Targets that write get no expanded or overlapping "
    "ones.",
    "remediation": "Use operators that take any strides (torch.linalg.vector_norm, torch._foreach_norm, "
    "torch.count_nonzero); flatten with reshape(-1), not view(-1).",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"sound": "truth"},
}

# backward() leaves gradients laid out like these, after their parameters.
_FROM_BACKWARD = ("channels_last", "transposed", "permuted")
_NOT_WRITABLE = ("expanded", "overlapping")
_LAYOUT_WORDS = ("contig", "stride", "layout", "offset")
_TOLERANCE = 1e-4


def measure(ctx):
    """Yield for every layout whether the result is the contiguous one, and what happened if it is not."""
    refused, judged = [], []
    # A value that auditkit derived from a gradient has its layout from auditkit, not from backward.
    filled = [name for name, value in ctx.plan.filled.items() if "gradient" in str(value)]
    made = {"read_from": ", ".join(filled)} if filled else {}
    for layout in ctx.layouts:
        if layout in _NOT_WRITABLE and ctx.writes_gradients:
            continue
        usual, error = attempt(ctx, lambda layout=layout: [_result(ctx, layout, True) for _ in range(2)])
        if error is not None:
            refused.append(error)
            yield ctx.note("{} was not judged: the same values contiguous raise {}".format(layout, error))
            continue
        ignored = ctx.unequal_fields(*usual)
        if not is_read(ctx, usual[0], lambda factor, layout=layout: ctx.laid_out(layout, True, factor), ignored):
            yield ctx.note("{} was not judged: the result does not depend on such a gradient".format(layout))
            continue
        judged.append((layout, usual[0], ignored))
    yield from compare_forms(ctx, [_form(ctx, made, *each) for each in judged])
    if len(refused) == len(ctx.layouts):
        raise refused[0]
    if not judged:
        raise ctx.NotApplicable("its result depends on none of the gradients with another layout")


def _result(ctx, layout, contiguous=False):
    return with_norm_afterwards(ctx, ctx.laid_out(layout, contiguous))


def _form(ctx, made, layout, expected, ignored):
    def run():
        answer = _result(ctx, layout)
        return [
            "{} {} instead of {}".format(path or "the result", text(answer.get(path)), text(expected[path]))
            for path in ctx.differences(expected, answer)
            if path not in ignored and not _speaks_of_layout(path) and _far(answer.get(path), expected[path])
        ][:3]

    def where():
        return ctx.where_different(ctx.laid_out(layout), ctx.laid_out(layout, contiguous=True))

    return {"layout": layout, **made}, run, where


def _speaks_of_layout(path):
    return any(word in path.lower() for word in _LAYOUT_WORDS)


def _far(value, expected):
    if value is None or isinstance(expected, bool) or not (math.isfinite(value) and math.isfinite(expected)):
        return True
    if isinstance(expected, int) and isinstance(value, int):
        return True
    return abs(value - expected) > _TOLERANCE * max(abs(value), abs(expected)) + 1e-6


def judge(measurements, policy):
    """Reproduced if any layout raised or changed the result."""
    broken = [m for m in measurements if not m.value]
    if not broken:
        layouts = ", ".join(m.case["layout"] for m in measurements)
        return verdict(False, layouts + " gradients give the result of contiguous ones")
    unmeant = [m for m in broken if not m.case["how"].startswith("refuses") and "read_from" not in m.case]
    occurs = "common" if any(m.case["layout"] in _FROM_BACKWARD for m in unmeant) else "extreme"
    breaks = "stops" if all(m.case["kind"] == "raises" for m in broken) else "wrong_norm"
    message = grouped((m.case["how"], m.case["layout"]) for m in broken)
    return verdict(True, message, breaks=breaks, occurs=occurs)


if __name__ == "__main__":
    run_alone(__file__)
