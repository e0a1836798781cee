#!/usr/bin/env python3
"""Does a gradient without elements raise, or poison the answer?"""

import math

from forms import run_alone

PROBE = {
    "version": 2,
    "title": "A gradient without elements raises or poisons the answer",
    "categories": ["Correctness bug", "Defensive programming violation"],
    "breaks": "wrong_norm",
    "occurs": "rare",
    "motivation": "A rank without a part of a sharded parameter, or an expert without tokens, has a gradient of no "
    "elements. max() of it raises, mean() is NaN, and one rank that raises leaves the others waiting.",
    "method": "A tensor without elements is put first, between and last among three gradients. Nothing may raise or "
    "turn non-finite; total norm and counts stay; other fields stay within what zeros or ones in its place give. "
    "Alone, it may be refused in words.",
    "limits": "A minimum or mean that takes it for a norm of 0 is shown, not judged. What no tensors, or zeros, do at "
    "the same line is left to the probes for those.",
    "remediation": "Leave out gradients without elements (g.numel() is free) before anything is reduced.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"sound": "truth", "read_as_zero": "fields"},
}

_CASES = (("first", (0,)), ("between", (3, 0)), ("last", (0, 4)))
_TOLERANCE = 1e-6


def measure(ctx):
    """Yield for every place whether the answer stands it, which fields take it for zeros, and the same alone."""
    import torch

    base, again = (ctx.answer(ctx.with_one_more("last")) for _ in range(2))
    unstable = ctx.unequal_fields(base, again)
    for position, shape in _CASES:
        extra, filled = torch.zeros(shape), [size or 2 for size in shape]
        controls, raised = _controls(ctx, position, torch.zeros(filled), torch.ones(filled))
        try:
            answer = ctx.answer(ctx.with_one_more(position, extra))
            wrong, kind, site = _wrong_fields(ctx, answer, [base, *controls], unstable), "differs", None
            like_zeros = [path for path in ctx.differences(base, answer) if path in answer and not wrong]
            case = {"position": position, "fields": ", ".join(like_zeros) or "none"}
            yield ctx.measurement("read_as_zero", len(like_zeros), "fields", **case)
        except ctx.TargetRaised as error:
            if error.site is not None and error.site in raised:
                yield ctx.note("{} was not judged: a tensor of zeros there also raises {}".format(position, error))
                continue
            wrong, kind, site = [str(error)[:160]], "raises", error.site
        yield _row(ctx, position, shape, kind, wrong)
        if wrong and not ctx.located:
            yield ctx.location(site or ctx.where_nonfinite(ctx.with_one_more(position, extra)))
    kind, wrong, site = _alone(ctx, torch.zeros(0))
    yield _row(ctx, "alone", (0,), kind, wrong)
    if kind != "refuses" and wrong and not ctx.located:
        yield ctx.location(site or ctx.where_nonfinite(ctx.place([torch.zeros(0)])))


def _controls(ctx, position, *tensors):
    """The answers with each of `tensors` in place of the one without elements, and the lines that raised instead."""
    answers, raised = [], []
    for tensor in tensors:
        try:
            answers.append(ctx.answer(ctx.with_one_more(position, tensor)))
        except ctx.TargetRaised as error:
            raised.append(error.site)
    return answers, raised


def _row(ctx, position, shape, kind, wrong):
    sound = not wrong or kind == "refuses"
    case = {"position": position, "shape": str(list(shape)), "kind": kind if wrong else "", "how": ", ".join(wrong[:4])}
    return ctx.measurement("sound", sound, "truth", **case)


def _wrong_fields(ctx, answer, controls, unstable):
    """What no tensor without elements may do to an answer; `controls`: without it, with zeros, with ones."""
    base = controls[0]
    exact = ctx.exact_norm(ctx.with_one_more("last"))
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
            wrong.append("{} turns {}".format(path or "the answer", value))
        elif path in base and not _allowed(value, known, path in fixed):
            wrong.append("{} {} instead of {}".format(path or "the answer", _text(value), _text(base[path])))
    return wrong


def _text(value):
    return "{:.6g}".format(value) if isinstance(value, float) else str(value)


def _allowed(value, known, is_fixed):
    if isinstance(value, bool) or any(isinstance(each, bool) for each in known):
        return value in known
    if is_fixed:
        return _near(value, known[0])
    if value == 0 and isinstance(value, int) and min(known) != max(known):
        return True  # a count of elements, of one gradient perhaps: there are none
    margin = _TOLERANCE * max(1.0, *(abs(each) for each in known))
    return min(known) - margin <= value <= max(known) + margin


def _near(value, expected):
    return value is not None and math.isclose(value, expected, rel_tol=_TOLERANCE)


def _alone(ctx, empty):
    """(kind, words, site) of what is wrong where a tensor without elements is the only gradient."""
    answers, raised = [], []
    for control in ([], [empty.new_zeros(2)]):
        try:
            answers.append(ctx.answer(ctx.place(control)))
        except ctx.TargetRaised as error:
            raised.append(error.site)
            answers.append({})
    nothing = answers[0]
    try:
        answer = ctx.answer(ctx.place([empty]))
    except ctx.TargetRaised as error:
        if error.site is not None and error.site in raised:
            return "", [], None
        return "refuses" if error.deliberate else "raises", [str(error)[:160]], error.site
    lost = ctx.lost_fields({path: value for path, value in nothing.items() if path in answers[1]}, answer)
    wrong = [lost] if lost else []
    wrong += [
        "{} reads {}".format(path or "the answer", value)
        for path, value in answer.items()
        if isinstance(value, float) and not math.isfinite(value) and math.isfinite(nothing.get(path, 0.0))
    ]
    return "differs", wrong, None


def judge(measurements, policy):
    """Reproduced where it raised, poisoned or changed the answer."""
    broken = [m for m in measurements if m.name == "sound" and not m.value]
    if not broken:
        # At the end of the list it does not move the other tensors' own fields.
        shown = [m for m in measurements if m.name == "read_as_zero" and m.case["position"] == "last" and m.value]
        taken = " (it counts as one of zeros in {})".format(shown[0].case["fields"]) if shown else ""
        message = "a gradient without elements changes nothing that it may not" + taken
        return {"outcome": "not_reproduced", "message": message}
    grouped = {}
    for m in broken:
        how = ("raises " if m.case["kind"] == "raises" else "") + m.case["how"]
        grouped.setdefault(how, []).append(m.case["position"])
    message = "a gradient without elements, {}".format(
        "; ".join("{}: {}".format(", ".join(positions), how) for how, positions in grouped.items())
    )
    # Among others it is a rank's share of a parameter with fewer rows than ranks; alone, nothing was to be trained.
    verdict = {"outcome": "reproduced", "message": message}
    verdict["occurs"] = "extreme" if all(m.case["position"] == "alone" for m in broken) else "rare"
    verdict["breaks"] = "stops" if all(m.case["kind"] == "raises" for m in broken) else "wrong_norm"
    return verdict


if __name__ == "__main__":
    run_alone(__file__)
