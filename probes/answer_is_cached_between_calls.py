#!/usr/bin/env python3
"""Does a second call answer for the gradients of the first?"""

PROBE = {
    "id": "answer_is_cached_between_calls",
    "version": 2,
    "title": "Later calls return the first call's answer",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Correctness bug"],
    "agent": "PT",
    "breaks": "wrong_norm",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "instrument": "numerics",
    "motivation": "A collector is called at every step, on the same model. functools.cache keyed by the model, an "
    "attribute that is computed once, a dictionary in the module: the first step's numbers are logged for all of the "
    "run, look healthy, and no test with one call sees it.",
    "method": "One instance is called with some gradients and then 64 times with others: larger ones, smaller ones, "
    "some that are not finite. A field is judged where first calls of their own give two values for the two. It is "
    "kept where each of the later calls gives the first one's value, in both directions: so a largest value so far, a "
    "moving average, an answer that is a step late or renewed every few steps is none. Arguments "
    "that count steps advance by 1000 from call to call.",
    "limits": "What is renewed less often than every 64 calls counts as kept. A cache keyed by the gradients' own "
    "tensors is not met: a training step may make new ones or fill the old ones.",
    "remediation": "Compute from the gradients at every call; cache only what does not depend on them, such as the "
    "list of parameters.",
    "remediation_code": "remedies/total_norm.py",
    "verification": ["a call on the same model with other gradients gives the answer of a first call with them"],
    "measurements": {"kept_fields": "count", "kept_value": "value", "expected_value": "value"},
}

_CALLS = 64
_DIRECTIONS = ("larger", "smaller")


def measure(ctx):
    """Yield for each change of the gradients how many fields stay what the first call gave, and their values."""
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
        # What finite gradients move is judged on them: whether it tells NaN and Inf is another question.
        judged = [field for field in moving if name in _DIRECTIONS or field not in moved]
        moved.update(moving)
        kept = [field for field in judged if _is_kept(ctx, field, fresh[0], in_turn)]
        yield ctx.measurement("kept_fields", len(kept), "count", change=name, judged=len(judged))
        for field in kept:
            yield ctx.measurement("kept_value", in_turn[-1][field], "value", change=name, field=field)
            yield ctx.measurement("expected_value", fresh[1][field], "value", change=name, field=field)
        if kept and not ctx.located:
            yield ctx.location(ctx.definition())
    if not moved:
        if refused:
            raise refused[0]
        raise ctx.NotApplicable("it returns nothing that other gradients change")


def _changes(ctx):
    """(what the gradients become, a maker of the first ones, one of the later ones)."""

    def large():
        return ctx.benign(seed=1, scale=8.0, zeros=5)

    yield "larger", ctx.benign, large
    yield "smaller", large, ctx.benign
    yield "not finite", ctx.benign, lambda: ctx.benign(nans=5, infs=1)


def _is_kept(ctx, field, expected, in_turn):
    return all(field in answer and not ctx.differences({field: expected[field]}, answer) for answer in in_turn)


def judge(measurements, policy):
    """Reproduced where a field is kept whichever way the gradients change, or only ever tells finite from not."""
    rows = [m for m in measurements if m.name == "kept_value"]
    kept = {name: {m.case["field"] for m in rows if m.case["change"] == name} for name in (*_DIRECTIONS, "not finite")}
    stuck = (kept["larger"] & kept["smaller"]) | kept["not finite"]
    if not stuck:
        return {"outcome": "not_reproduced", "message": "later calls with other gradients answer for those"}
    shown = next(m for m in rows if m.case["field"] in stuck)
    expected = next(m for m in measurements if m.name == "expected_value" and m.case == shown.case)
    message = "{} later calls with other gradients give the first one's {}: {:.6g} instead of {:.6g}".format(
        _CALLS, ", ".join(sorted(filter(None, stuck))) or "answer", float(shown.value), float(expected.value)
    )
    return {"outcome": "reproduced", "message": message}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
