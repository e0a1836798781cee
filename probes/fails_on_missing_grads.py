#!/usr/bin/env python3
"""Do parameters without a gradient break the answer, or count in it?"""

from forms import run_alone

PROBE = {
    "title": "Parameters without a gradient are counted",
    "categories": ["Correctness bug", "Defensive programming violation"],
    "breaks": "wrong_norm",
    "occurs": "common",
    "motivation": "Frozen layers and unused branches have grad None. Counted as a layer of norm 0, they look like "
    "vanishing gradients and pull every mean and fraction down.",
    "method": "Parameters without a gradient are put before, between and after three with gradients. Every field that "
    "depends on the gradients' values must stay as it is, to six digits.",
    "limits": "Fields that no value moves, entries of single tensors and positions are not judged, nor is the target's "
    "own refusal. Targets that take gradients are not applicable.",
    "remediation": "Leave out parameters whose grad is None before anything is counted or divided.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"raises": "truth", "changed_fields": "count", "value_without": "value", "value_with": "value"},
}

_OTHER_VALUES = ({"scale": 4.0}, {"scale": 0.0}, {"zeros": 5}, {"nans": 1}, {"infs": 1})
_NONE_ADDED = 4
_BUFFERS = ("the gradient", "the gradients end to end", "a list of a list of the gradients, zeros where there is none")
"""What auditkit fills in for a buffer. A buffer exists before any gradient does: it holds zeros, and lacks nothing."""
_FIRST, _SECOND = "first group", "second group"


def measure(ctx):
    """Yield for every group: whether missing gradients raise, and the fields that they change."""
    if ctx.plan.feed.takes == "gradients":
        raise ctx.NotApplicable("it takes gradients: parameters without one never reach it")
    buffers = [path for path, value in ctx.plan.filled.items() if value in _BUFFERS]
    if buffers:
        raise ctx.NotApplicable(
            "it reads {}, a buffer of every parameter: no gradient is missing there".format(buffers[0])
        )
    if ctx.reads(0) and not ctx.reads(0, first=1):
        raise ctx.NotApplicable("its answer follows one gradient by its place: it is about that parameter alone")
    expected = ctx.ask(ctx.benign(), ctx.benign(seed=1))
    judged = _fields_that_depend_on_values(ctx, expected)
    sites = []
    for name, first, second in _cases(ctx):
        case = {"among": name, "groups": ctx.plan.groups, "missing": _NONE_ADDED}
        try:
            answer = ctx.ask(first, second)
        except ctx.TargetRaised as error:
            sites.append(error.site)
            yield ctx.measurement("raises", True, "truth", error=str(error), deliberate=error.deliberate, **case)
            continue
        changed = [path for path in ctx.differences(expected.fields, answer.fields) if path in judged]
        changed = [path for path in changed if not _is_position(ctx, path, expected.fields[path], name)]
        yield ctx.measurement("changed_fields", len(changed), "count", judged=len(judged), **case)
        for path in changed:
            yield ctx.measurement("value_without", expected.fields[path], "value", field=path, **case)
            yield ctx.measurement("value_with", answer.fields.get(path), "value", field=path, **case)
        if changed:
            sites.append(answer.site)
    if sites:
        yield ctx.location(sites[0] or ctx.definition())


def _cases(ctx):
    """Name, first and second group; gradients are made anew for each call, which may change them."""
    yield _FIRST, ctx.interleaved(ctx.benign()), ctx.benign(seed=1)
    if ctx.plan.groups > 1:
        yield _SECOND, ctx.benign(), ctx.interleaved(ctx.benign(seed=1))


def _is_position(ctx, path, expected, among):
    """Whether an integer changes only where the missing gradients come first: it says where a parameter stands."""
    if type(expected) is not int:
        return False
    missing = [None] * _NONE_ADDED
    first = ctx.benign() + (missing if among == _FIRST else [])
    second = ctx.benign(seed=1) + (missing if among == _SECOND else [])
    try:
        return ctx.ask(first, second).fields.get(path) == expected
    except ctx.TargetRaised:
        return False


def _fields_that_depend_on_values(ctx, expected):
    """The fields that other values in either group move, without those for single tensors and without clocks."""
    fewer = ctx.ask(ctx.benign()[:2], ctx.benign(seed=1)[:2])
    common = ctx.common_structure([expected, fewer])
    clocks = set(ctx.unequal_fields(expected.fields, ctx.ask(ctx.benign(), ctx.benign(seed=1)).fields))
    moved = set()
    for planted in _OTHER_VALUES:
        for first, second in ((planted, {}), ({}, planted)):
            try:
                answer = ctx.ask(ctx.benign(**first), ctx.benign(seed=1, **second))
            except ctx.TargetRaised:
                continue
            moved.update(ctx.differences(expected.fields, answer.fields))
    return {path for path in moved if path in common and path not in clocks}


def judge(measurements, policy):
    """Reproduced where a field changes, and where an exception is not the target's own refusal."""
    texts, refusals, changes = [], [], False
    for m in measurements:
        among = m.case["among"]
        where = " in the " + among if m.case["groups"] > 1 else ""
        if m.name == "raises" and m.case["deliberate"]:
            refusals.append("it refuses parameters without a gradient: " + m.case["error"])
        elif m.name == "raises":
            texts.append("a parameter without a gradient{} raises {}".format(where, m.case["error"]))
        elif m.name == "changed_fields" and m.value:
            texts.append("{} parameters without a gradient{} change ".format(m.case["missing"], where))
            changes = True
            texts[-1] += ", ".join(_change(measurements, path, among) for path in _fields(measurements, among))
    if texts:
        breaks = "wrong_norm" if changes else "stops"
        return {"outcome": "reproduced", "breaks": breaks, "message": "; ".join(texts)}
    sound = "parameters without a gradient change nothing that depends on gradients"
    return {"outcome": "not_reproduced", "message": "; ".join(dict.fromkeys(refusals)) or sound}


def _fields(measurements, among):
    return [m.case["field"] for m in measurements if m.name == "value_without" and m.case["among"] == among]


def _change(measurements, path, among):
    values = {m.name: m.value for m in measurements if (m.case.get("field"), m.case["among"]) == (path, among)}
    return "{} from {} to {}".format(
        path or "the answer", _shown(values["value_without"]), _shown(values["value_with"])
    )


def _shown(value):
    if value is None:
        return "nothing"
    return "{:.4g}".format(value) if isinstance(value, float) else str(value)


if __name__ == "__main__":
    run_alone(__file__)
