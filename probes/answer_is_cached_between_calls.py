#!/usr/bin/env python3
"""Does a later call return the result for the first call's gradients?"""

from forms import rows, run_alone, verdict

PROBE = {
    "version": 2,
    "title": "Later calls return the first call's result",
    "categories": ["Correctness bug"],
    "breaks": "wrong_norm",
    "occurs": "ordinary",
    "motivation": "A collector runs at every step on the same model. A cache keyed by the model, or an attribute that "
    "is computed once, logs the first step's numbers for the whole run.",
    "method": "One instance is called with some gradients and then 64 times with others. A field is stale if every "
    "later call returns the first value, whether the gradients grow or shrink. Step counters advance by 1000 from call "
    "to call.",
    "limits": "A value that is renewed less often than every 64 calls counts as stale. A cache keyed by the gradient "
    "tensors is not tried.",
    "remediation": "Compute from the gradients at every call; cache only what does not depend on them, such as the "
    "list of parameters.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"kept_fields": "count", "kept_value": "value", "expected_value": "value"},
}

_CALLS = 64
_DIRECTIONS = ("larger", "smaller")


def measure(ctx):
    """Yield for each change of the gradients how many fields keep the first call's value, and the values."""
    refused, moved = [], set()
    for name, first, second in _changes(ctx):
        try:
            fresh = [ctx.answer(make()) for make in (first, second)]
            in_turn = ctx.answers_in_turn([first, *[second] * _CALLS])
        except ctx.TargetRaised as error:
            refused.append(error)
            yield ctx.note("gradients that become {} were not judged: the target raises {}".format(name, error))
            continue
        moving = [field for field in ctx.differences(*fresh) if field in fresh[1]]
        # Fields that finite gradients change are judged on those; another probe checks NaN and Inf.
        judged = [field for field in moving if name in _DIRECTIONS or field not in moved]
        moved.update(moving)
        kept = [field for field in judged if _is_kept(ctx, field, fresh[0], in_turn)]
        yield ctx.measurement("kept_fields", len(kept), "count", change=name, judged=len(judged))
        for field in kept:
            values = {"kept_value": in_turn[-1][field], "expected_value": fresh[1][field]}
            yield from rows(ctx, PROBE, {"change": name, "field": field}, **values)
        if kept and not ctx.located:
            yield ctx.location(ctx.definition())
    if not moved:
        if refused:
            raise refused[0]
        raise ctx.NotApplicable("other gradients change nothing that it returns")


def _changes(ctx):
    """Yield (what the gradients become, a maker of the first ones, one of the later ones)."""

    def large():
        return ctx.benign(seed=1, scale=8.0, zeros=5)

    yield "larger", ctx.benign, large
    yield "smaller", large, ctx.benign
    yield "not finite", ctx.benign, lambda: ctx.benign(nans=5, infs=1)


def _is_kept(ctx, field, expected, in_turn):
    return all(field in answer and not ctx.differences({field: expected[field]}, answer) for answer in in_turn)


def judge(measurements, policy):
    """Reproduced if a field keeps its value for larger and smaller gradients, or for those that become non-finite."""
    rows = [m for m in measurements if m.name == "kept_value"]
    kept = {name: {m.case["field"] for m in rows if m.case["change"] == name} for name in (*_DIRECTIONS, "not finite")}
    stuck = (kept["larger"] & kept["smaller"]) | kept["not finite"]
    if not stuck:
        return verdict(False, "later calls with other gradients return results for those")
    shown = next(m for m in rows if m.case["field"] in stuck)
    expected = next(m for m in measurements if m.name == "expected_value" and m.case == shown.case)
    message = "{} later calls with other gradients give the first one's {}: {:.6g} instead of {:.6g}"
    fields = ", ".join(sorted(filter(None, stuck))) or "answer"
    return verdict(True, message.format(_CALLS, fields, float(shown.value), float(expected.value)))


if __name__ == "__main__":
    run_alone(__file__)
