#!/usr/bin/env python3
"""Does a gradient without elements raise, or make the result non-finite?"""

import math

from forms import attempt, compare_forms, grouped, run_alone, text, verdict

PROBE = {
    "version": 2,
    "title": "A gradient without elements raises or corrupts the result",
    "categories": ["Correctness bug", "Defensive programming violation"],
    "breaks": "wrong_norm",
    "occurs": "rare",
    "motivation": "A rank without a part of a sharded parameter, or an expert without tokens, has a gradient of no "
    "elements. max() of it raises, mean() is NaN, and one rank that raises leaves the others waiting.",
    "method": "A tensor without elements is put first, between and last among three gradients. Nothing may raise or "
    "turn non-finite; total norm and counts stay; other fields stay within what zeros or ones in its place give. "
    "Alone, it may be refused with a clear error.",
    "limits": "A minimum or mean that takes it for a norm of 0 is not judged. What no tensors, or zeros, do at "
    "the same line is left to the probes for those.",
    "remediation": "Leave out gradients without elements (g.numel() is free) before anything is reduced.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"sound": "truth"},
}

# The place, the shape, and the index among three gradients before which the tensor is inserted.
_CASES = (("first", (0,), 0), ("between", (3, 0), 1), ("last", (0, 4), 3))
_TOLERANCE = 1e-6


def measure(ctx):
    """Yield for every place, and for the tensor alone, whether the result stays right."""
    import torch

    base, again = (ctx.answer(ctx.with_one_more(0)) for _ in range(2))
    unstable = ctx.unequal_fields(base, again)
    raised, forms = {}, []
    for position, shape, index in _CASES:
        filled = [size or 2 for size in shape]
        others = (ctx.with_one_more(index, tensor) for tensor in (torch.zeros(filled), torch.ones(filled)))
        controls, raised[position] = _controls(ctx, others)

        def run(shape=shape, index=index, controls=controls):
            answer = ctx.answer(ctx.with_one_more(index, torch.zeros(shape)))
            return _wrong_fields(ctx, answer, [base, *controls], unstable)

        def where(index=index, shape=shape):
            return ctx.where("becomes_nonfinite", ctx.with_one_more(index, torch.zeros(shape)))

        forms.append(({"position": position}, run, where))
    alone = ctx.place([torch.zeros(0)])
    controls, raised["alone"] = _controls(ctx, ([], ctx.place([torch.zeros(2)])), {})
    forms.append((
        {"position": "alone"},
        lambda: _wrong_alone(ctx, ctx.answer(alone), *controls),
        lambda: ctx.where("becomes_nonfinite", alone),
    ))  # fmt: skip
    yield from compare_forms(
        ctx,
        forms,
        passes=lambda error, case: case["position"] == "alone" and error.deliberate,
        # Other probes judge what zeros, or no tensors, cause at the same line.
        skips=lambda error, case: error.site is not None and error.site in raised[case["position"]],
    )


def _controls(ctx, inputs, default=None):
    """Return the results for `inputs`, `default` for each that raises, and the lines that raised."""
    tried = [attempt(ctx, ctx.answer, grads) for grads in inputs]
    answers = [default if error is not None else answer for answer, error in tried]
    return [answer for answer in answers if answer is not None], [error.site for _, error in tried if error is not None]


def _wrong_fields(ctx, answer, controls, unstable):
    """Return changes that a tensor without elements must not cause; `controls`: without it, with zeros, with ones."""
    base = controls[0]
    exact = ctx.exact_norm(ctx.with_one_more(0))
    fixed = [role.path for name, role in ctx.roles.items() if name != "norm" and role.kind == "count"]
    role = ctx.roles.get("norm")
    if role is not None and _near(base.get(role.path), exact**role.degree):
        fixed.append(role.path)
    lost = ctx.lost_fields({path: base[path] for path in base if all(path in each for each in controls)}, answer)
    wrong = [lost] if lost else []
    for path, value in answer.items():
        known = [control[path] for control in controls if path in control]
        if path in unstable or (isinstance(value, float) and not all(math.isfinite(each) for each in known)):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            wrong.append("{} turns {}".format(path or "the result", value))
        elif path in base and not _allowed(value, known, path in fixed):
            wrong.append("{} {} instead of {}".format(path or "the result", text(value), text(base[path])))
    return wrong


def _allowed(value, known, is_fixed):
    if isinstance(value, bool) or any(isinstance(each, bool) for each in known):
        return value in known
    if is_fixed:
        return _near(value, known[0])
    if value == 0 and isinstance(value, int) and min(known) != max(known):
        return True  # a count of elements, perhaps of one gradient, is 0
    margin = _TOLERANCE * max(1.0, *(abs(each) for each in known))
    return min(known) - margin <= value <= max(known) + margin


def _near(value, expected):
    return value is not None and math.isclose(value, expected, rel_tol=_TOLERANCE)


def _wrong_alone(ctx, answer, nothing, zeros):
    lost = ctx.lost_fields({path: value for path, value in nothing.items() if path in zeros}, answer)
    wrong = [lost] if lost else []
    return wrong + [
        "{} reads {}".format(path or "the result", value)
        for path, value in answer.items()
        if isinstance(value, float) and not math.isfinite(value) and math.isfinite(nothing.get(path, 0.0))
    ]


def judge(measurements, policy):
    """Reproduced if it raised, or changed the result."""
    broken = [m for m in measurements if not m.value]
    if not broken:
        return verdict(False, "a gradient without elements changes only what it may change")
    message = "a gradient without elements, " + grouped((m.case["how"], m.case["position"]) for m in broken)
    # Among others it is a rank's part of a parameter with fewer rows than ranks; alone, there is nothing to train.
    occurs = "extreme" if all(m.case["position"] == "alone" for m in broken) else "rare"
    breaks = "stops" if all(m.case["kind"] == "raises" for m in broken) else "wrong_norm"
    return verdict(True, message, breaks=breaks, occurs=occurs)


if __name__ == "__main__":
    run_alone(__file__)
