#!/usr/bin/env python3
"""Does a collector that should only read change what it was given?"""

from forms import attempt, joined, run_alone, verdict

PROBE = {
    "version": 4,
    "title": "The collector changes the gradients it should only read",
    "categories": ["Correctness bug", "API design / contract violation"],
    "breaks": "wrong_step",
    "occurs": "ordinary",
    "statement_does": "changes the gradients",
    "instrument": "mutation",
    "motivation": "A statistic is taken between backward() and step(): whatever it changes is what the optimizer uses. "
    "nan_to_num_() hides the NaN that it should report; detach_() ends a second-order method.",
    "method": "Elements, address, strides, dtype, version counter, requires_grad and graph of every gradient, the "
    "parameters and the caller's list are compared before and after one call, for ordinary, NaN and Inf, zero, large "
    "and missing gradients and for ones with a graph.",
    "limits": "Targets that are there to change gradients are left out, by what they do (docs/design/effects.md), then "
    "by their name. Module buffers, hooks and training mode are not compared.",
    "remediation": "Use operators without underscore, detach() a reference instead of detach_(), and copy the list, "
    "not the tensors.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"changed": "count"},
}

# Worst first: what the optimizer uses, then what autograd needs, then what only looks the same.
_WORDS = {
    "values": "the values of {}",
    "removed": "{} to None",
    "parameter": "parameters ({})",
    "added": "{} from None to a tensor",
    "graph": "the graph of {}",
    "requires_grad": "requires_grad of {}",
    "replaced": "{} to another tensor of equal values",
    "memory": "the memory of {}",
    "version": "the version counter of {} (written in place with the values that were there)",
    "list": "{}",
}
_GRAVE = ("values", "removed", "parameter")
_MIDDLE = ("added", "graph", "requires_grad")


def measure(ctx):
    """Yield for every input and kind of change how many things changed, and where the first change was made."""
    if ctx.writes_gradients:
        raise ctx.NotApplicable("changing gradients is what it is for: " + ctx.plan.writes)
    refused, inputs = [], dict(_inputs(ctx))
    for name, make in inputs.items():
        changes, error = attempt(ctx, lambda make=make: ctx.changes(*make()))
        if error is not None:
            refused.append(error)
            yield ctx.note("gradients {} were not judged: the target raises {}".format(name, error))
            continue
        kinds = {}
        for change in changes:
            kinds.setdefault(change.kind, []).append(change.what)
        if set(kinds) == {"added"} and not ctx.is_a_statistic:
            raise ctx.NotApplicable("changing gradients is what it is for: it gives one to parameters without any")
        for kind, things in kinds.items():
            yield ctx.measurement("changed", len(things), "count", input=name, kind=kind, what=joined(things, 1))
        if not kinds:
            yield ctx.measurement("changed", 0, "count", input=name, kind="any", what="nothing")
        elif not ctx.located:
            yield ctx.location(ctx.where_changed(*make()))
    if ctx.device == "simulated":
        yield ctx.note("gradients with a graph were not tried: the simulated device has no autograd")
    if len(refused) == len(inputs):
        raise refused[0]


def _inputs(ctx):
    """Yield (name, maker of new arguments for `changes`): every call gets new ones."""
    yield "of ordinary size", lambda: (ctx.benign(),)
    yield "with NaN and Inf", lambda: (ctx.benign(nans=1, infs=1),)
    yield "of zeros", lambda: (ctx.gradients(3, 64, magnitude=0.0),)
    yield "of 1e6", lambda: (ctx.gradients(3, 64, magnitude=1e6),)
    if ctx.plan.feed.takes != "gradients":
        yield "with one missing", lambda: ([None, *ctx.benign()],)
    if ctx.device != "simulated":
        yield "with a graph", ctx.with_graph


def judge(measurements, policy):
    """Reproduced if anything changed."""
    changed = [m for m in measurements if m.value]
    inputs = list(dict.fromkeys(m.case["input"] for m in measurements))
    if not changed:
        return verdict(False, "nothing changes: gradients " + ", ".join(inputs))
    parts = []
    for kind, words in _WORDS.items():
        rows = [m for m in changed if m.case["kind"] == kind]
        if rows:
            given = [m.case["input"] for m in rows]
            when = "" if given == inputs else " for gradients " + ", ".join(given)
            parts.append(words.format(rows[0].case["what"]) + when)
    # An added value or a lost graph matters to a second backward or to few optimizers; equal values to none.
    occurs = "rare" if any(m.case["kind"] in _MIDDLE for m in changed) else "extreme"
    grave = {m.case["input"] for m in changed if m.case["kind"] in _GRAVE}
    if grave:
        occurs = "ordinary" if inputs[0] in grave else "common"
    return verdict(True, "it changes " + "; ".join(parts), occurs=occurs)


if __name__ == "__main__":
    run_alone(__file__)
