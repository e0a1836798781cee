#!/usr/bin/env python3
"""Do parameters without a gradient break the result, or count in it?"""

from forms import attempt, rows, run_alone, text, verdict

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
# What auditkit passes for a buffer. A buffer exists before any gradient: it holds zeros, and nothing is missing.
_BUFFERS = ("the gradient", "the gradients end to end", "a list of a list of the gradients, zeros where there is none")
_FIRST, _SECOND = "first group", "second group"


def measure(ctx):
    """Yield for every group whether missing gradients raise, and the fields that they change."""
    if ctx.plan.feed.takes == "gradients":
        raise ctx.NotApplicable("it takes gradients, so parameters without one never reach it")
    for path, value in ctx.plan.filled.items():
        if value in _BUFFERS:
            reason = "it reads {}, a buffer of every parameter: no gradient is missing there"
            raise ctx.NotApplicable(reason.format(path))
    if ctx.reads(0) and not ctx.reads(0, first=1):
        raise ctx.NotApplicable("its result depends on a single gradient by position: it is about that parameter alone")
    expected = ctx.ask(ctx.benign(), ctx.benign(seed=1))
    judged = _fields_that_depend_on_values(ctx, expected)
    sites = []
    for name in (_FIRST, _SECOND) if ctx.plan.groups > 1 else (_FIRST,):
        case = {"among": name, "groups": ctx.plan.groups, "missing": _NONE_ADDED}
        answer, error = attempt(ctx, _with_missing, ctx, name, ctx.interleaved)
        if error is not None:
            sites.append(error.site)
            yield ctx.measurement("raises", True, "truth", error=str(error), deliberate=error.deliberate, **case)
            continue
        changed = [path for path in ctx.differences(expected.fields, answer.fields) if path in judged]
        changed = [path for path in changed if not _is_position(ctx, path, expected.fields[path], name)]
        yield ctx.measurement("changed_fields", len(changed), "count", judged=len(judged), **case)
        for path in changed:
            values = {"value_without": expected.fields[path], "value_with": answer.fields.get(path)}
            yield from rows(ctx, PROBE, {"field": path, **case}, **values)
        sites += [answer.site] if changed else []
    if sites:
        yield ctx.location(sites[0] or ctx.definition())


def _with_missing(ctx, among, add):
    """Return the result with missing gradients added to one group; each call gets new gradients."""
    first, second = ctx.benign(), ctx.benign(seed=1)
    return ctx.ask(add(first) if among == _FIRST else first, add(second) if among == _SECOND else second)


def _is_position(ctx, path, expected, among):
    """Return whether an integer changes only if the missing gradients come first: then it is a parameter's position."""
    if type(expected) is not int:
        return False
    answer, _ = attempt(ctx, _with_missing, ctx, among, lambda grads: grads + [None] * _NONE_ADDED)
    return answer is not None and answer.fields.get(path) == expected


def _fields_that_depend_on_values(ctx, expected):
    """Return the fields that other values in either group change, except those of single tensors and clocks."""
    fewer = ctx.ask(ctx.benign()[:2], ctx.benign(seed=1)[:2])
    common = ctx.common_structure([expected, fewer])
    clocks = set(ctx.unequal_fields(expected.fields, ctx.ask(ctx.benign(), ctx.benign(seed=1)).fields))
    moved = set()
    for planted in _OTHER_VALUES:
        for first, second in ((planted, {}), ({}, planted)):
            answer, _ = attempt(ctx, ctx.ask, ctx.benign(**first), ctx.benign(seed=1, **second))
            moved.update(ctx.differences(expected.fields, answer.fields) if answer is not None else ())
    return {path for path in moved if path in common and path not in clocks}


def judge(measurements, policy):
    """Reproduced if a field changes, or an exception is not the target's own refusal."""
    texts, refusals, changes = [], [], False
    for m in measurements:
        where = " in the " + m.case["among"] if m.case["groups"] > 1 else ""
        if m.name == "raises" and m.case["deliberate"]:
            refusals.append("it refuses parameters without a gradient: " + m.case["error"])
        elif m.name == "raises":
            texts.append("a parameter without a gradient{} raises {}".format(where, m.case["error"]))
        elif m.name == "changed_fields" and m.value:
            changes = True
            head = "{} parameters without a gradient{} change ".format(m.case["missing"], where)
            texts.append(head + ", ".join(_changes(measurements, m.case["among"])))
    if texts:
        breaks = "wrong_norm" if changes else "stops"
        return verdict(True, "; ".join(texts), breaks=breaks, occurs={"missing": "common"})
    sound = "parameters without a gradient change nothing that depends on gradients"
    return verdict(False, "; ".join(dict.fromkeys(refusals)) or sound)


def _changes(measurements, among):
    found = [m for m in measurements if m.case["among"] == among and "field" in m.case]
    after = {m.case["field"]: m.value for m in found if m.name == "value_with"}
    for m in found:
        if m.name == "value_without":
            path = m.case["field"]
            now = "nothing" if after[path] is None else text(after[path], 4)
            yield "{} from {} to {}".format(path or "the result", text(m.value, 4), now)


if __name__ == "__main__":
    run_alone(__file__)
