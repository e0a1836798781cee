#!/usr/bin/env python3
"""Do zero gradients, or none, turn a field of the result into NaN or infinity?"""

import math

from forms import attempt, run_alone, verdict

PROBE = {
    "version": 2,
    "title": "Zero gradients give NaN or infinity",
    "categories": ["Numerical stability", "Correctness bug"],
    "breaks": "wrong_answer",
    "occurs": "common",
    "statement_does": "gives the first value that is not finite",
    "motivation": "Zero gradients are finite and common: a dead layer, a zero-initialised branch. A quotient of two "
    "zero norms is NaN, and a gate that waits for it never opens.",
    "method": "All gradients, those of each tensor, and either group are set to zero; then there are none, and tensors "
    "without elements. A field that is usually finite must stay finite.",
    "limits": "Minus infinity in a logarithm is right and not reported, as is an infinite minimum or maximum of "
    "nothing. Without gradients only a division by zero counts. Tiny gradients are not tried.",
    "remediation": "Test that the denominator is above zero, return a fixed value otherwise, and say so in a field. An "
    "epsilon changes the ratio of small gradients.",
    "remediation_code": "remedies/compare_groups.py",
    "measurements": {"nonfinite_fields": "count", "value": "value", "usual_value": "value", "raises": "truth"},
}

_SCALE = 4.0
_NO_ELEMENTS = "without elements"


def measure(ctx):
    """Yield for every case: how many usually finite fields are not finite, which ones, and what raises."""
    usual = ctx.ask(ctx.benign(), ctx.benign(seed=1)).fields
    finite = {path: value for path, value in usual.items() if math.isfinite(value)}
    logarithms, sites = _logarithms(ctx, finite), []

    def raised(error, name, has_elements, read=""):
        if has_elements or str(error).startswith("ZeroDivisionError"):
            sites.append(None if error.deliberate else error.site or ctx.definition())
            case = {"input": name, "error": str(error) + read, "deliberate": error.deliberate}
            yield ctx.measurement("raises", True, "truth", **case)

    for name, make, has_elements in _cases(ctx):
        first, second = make()
        answer, error = attempt(ctx, ctx.ask, first, second)
        if error is not None:
            yield from raised(error, name, has_elements)
            continue
        is_empty = not has_elements and second is None  # inf and -inf are the minimum and the maximum of nothing
        bad = [path for path in finite if _is_bad(answer.fields.get(path), path in logarithms, is_empty)]
        broken = sum(not bool(grad.isfinite().all()) for grad in first if grad is not None)
        yield ctx.measurement("nonfinite_fields", len(bad), "count", input=name, gradients=broken)
        for path in bad:
            yield ctx.measurement("value", answer.fields[path], "value", field=path, input=name)
            yield ctx.measurement("usual_value", finite[path], "value", field=path, input=name)
        for path in sorted(answer.broken.keys() & usual.keys()):
            yield from raised(answer.broken[path], name, has_elements, " (on access to {})".format(path))
        if (bad or broken) and not any(sites):
            first, second = make()
            sites.append(ctx.where("becomes_nonfinite", first, second=second))
    yield ctx.location(next((site for site in sites if site is not None), None))


def _cases(ctx):
    """Yield the name, maker of both groups, and "has elements" of every case; a lone second group is not passed."""

    def sound(seed):
        return ctx.benign(seed=seed)

    empty = {
        "zero": lambda seed: ctx.benign(seed=seed, scale=0.0),
        "without gradients": lambda seed: [],
        _NO_ELEMENTS: lambda seed: ctx.gradients(1, 0),
    }
    for index in range(3):
        yield "one tensor zero", lambda index=index: (_one_zero(ctx, index), sound(1)), True
    for name, made in empty.items():
        has_elements = name == "zero"
        if ctx.plan.groups == 1:
            yield "all gradients zero" if has_elements else name, lambda made=made: (made(0), None), has_elements
            continue
        yield "first group " + name, lambda made=made: (made(0), sound(1)), has_elements
        yield "second group " + name, lambda made=made: (sound(0), made(1)), has_elements
        yield "both groups " + name, lambda made=made: (made(0), made(1)), has_elements


def _one_zero(ctx, index):
    grads = ctx.benign()
    grads[index] = ctx.benign(scale=0.0)[index]
    return grads


def _logarithms(ctx, finite):
    """Return the fields that change by the same amount per factor, for either group: logarithms, infinite at 0."""
    found = set()
    groups_of = (lambda scale: (ctx.benign(scale=scale), None), lambda scale: (ctx.benign(), ctx.benign(scale=scale)))
    for groups in groups_of:
        scaled = [ctx.ask(*groups(scale)).fields for scale in (1.0, _SCALE, _SCALE**2)]
        for path in finite:
            values = [fields.get(path) for fields in scaled]
            if all(isinstance(value, float) and math.isfinite(value) for value in values):
                step = values[1] - values[0]
                if step and math.isclose(step, values[2] - values[1], rel_tol=1e-5):
                    found.add(path)
    return found


def _is_bad(value, is_logarithm, is_empty):
    if not isinstance(value, float) or math.isfinite(value):
        return False
    return math.isnan(value) or not (is_empty or (is_logarithm and value < 0))


def judge(measurements, policy):
    """Reproduced if a usually finite field is not finite, or an exception is not the target's own."""
    found, refusals, breaks = {}, [], "stops"
    for m in measurements:
        if m.name == "raises" and m.case["deliberate"]:
            refusals.append("it refuses zero gradients: " + m.case["error"])
        elif m.name == "raises":
            found.setdefault("it raises " + m.case["error"], []).append(m.case["input"])
        elif m.name == "value":
            breaks = breaks if breaks == "wrong_step" else "wrong_answer"
            found.setdefault("{} is {}".format(m.case["field"] or "the result", m.value), []).append(m.case["input"])
        elif m.name == "nonfinite_fields" and m.case["gradients"]:
            breaks = "wrong_step"
            found.setdefault("the gradients become NaN or infinite", []).append(m.case["input"])
    if found:
        texts = ["{} ({})".format(text, ", ".join(dict.fromkeys(inputs))) for text, inputs in found.items()]
        rare = all(name.endswith(_NO_ELEMENTS) for inputs in found.values() for name in inputs)
        return verdict(True, "; ".join(texts), breaks=breaks, occurs="rare" if rare else "common")
    if refusals:
        return verdict(False, "; ".join(dict.fromkeys(refusals)))
    return verdict(False, "every field stays finite for zero gradients and without any")


if __name__ == "__main__":
    run_alone(__file__)
