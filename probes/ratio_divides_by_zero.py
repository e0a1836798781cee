#!/usr/bin/env python3
"""Do zero gradients, or none, turn a field of the answer into NaN or infinity?"""

import math

from forms import run_alone

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
    "without elements. A field that is usually finite must stay finite. Ratios are the fields that scaling one group "
    "moves and scaling both does not.",
    "limits": "Minus infinity in a logarithm is right and not reported. Without gradients only a division by zero "
    "counts. Tiny gradients are not tried.",
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
    ratios, logarithms = ", ".join(_ratios(ctx, finite)), _logarithms(ctx, finite)
    sites = []
    for name, make, has_elements in _cases(ctx):
        first, second = make()
        try:
            answer = ctx.ask(first, second)
        except ctx.TargetRaised as error:
            if has_elements or _divides_by_zero(error):
                yield _raised(ctx, error, name)
                sites.append(None if error.deliberate else error.site or ctx.definition())
            continue
        bad = [path for path in finite if _is_bad(answer.fields.get(path), path in logarithms)]
        broken = sum(not _all_finite(grad.tolist()) for grad in first if grad is not None)
        yield ctx.measurement("nonfinite_fields", len(bad), "count", input=name, ratios=ratios, gradients=broken)
        for path in bad:
            yield ctx.measurement("value", answer.fields[path], "value", field=path, input=name)
            yield ctx.measurement("usual_value", finite[path], "value", field=path, input=name)
        for path in sorted(answer.broken.keys() & usual.keys()):
            error = answer.broken[path]
            if has_elements or _divides_by_zero(error):
                yield _raised(ctx, error, name, " (asked for {})".format(path))
                sites.append(None if error.deliberate else error.site or ctx.definition())
        if (bad or broken) and not any(sites):
            sites.append(ctx.where_nonfinite(*make()))
    yield ctx.location(next((site for site in sites if site is not None), None))


def _cases(ctx):
    """Name, maker of both groups, and "has elements" of every case; the second group of a lone one is not fed."""
    sound, zero = (lambda seed: ctx.benign(seed=seed)), (lambda seed: ctx.benign(seed=seed, scale=0.0))
    empties = {"without gradients": lambda seed: [], _NO_ELEMENTS: lambda seed: ctx.gradients(1, 0)}
    cases = [("one tensor zero", lambda each=each: (_one_zero(ctx, each), sound(1)), True) for each in range(3)]
    if ctx.plan.groups == 1:
        cases.append(("all gradients zero", lambda: (zero(0), None), True))
        cases += [(name, lambda empty=empty: (empty(0), None), False) for name, empty in empties.items()]
        return cases
    for name, made, has_elements in [("zero", zero, True)] + [(name, e, False) for name, e in empties.items()]:
        cases += [
            ("first group " + name, lambda made=made: (made(0), sound(1)), has_elements),
            ("second group " + name, lambda made=made: (sound(0), made(1)), has_elements),
            ("both groups " + name, lambda made=made: (made(0), made(1)), has_elements),
        ]
    return cases


def _one_zero(ctx, index):
    grads = ctx.benign()
    grads[index] = ctx.benign(scale=0.0)[index]
    return grads


def _ratios(ctx, finite):
    """The fields that scaling the first group moves, and scaling both does not."""
    if ctx.plan.groups == 1:
        return []
    both = ctx.ask(ctx.benign(scale=_SCALE), ctx.benign(seed=1, scale=_SCALE)).fields
    first = ctx.ask(ctx.benign(scale=_SCALE), ctx.benign(seed=1)).fields
    moved_by_both = ctx.differences(finite, both)
    return [path for path in ctx.differences(finite, first) if path not in moved_by_both and _is_float(finite[path])]


def _logarithms(ctx, finite):
    """The fields that grow by the same step with every factor, of either group: their zero is at minus infinity."""
    found = set()
    groups_of = (lambda scale: (ctx.benign(scale=scale), None), lambda scale: (ctx.benign(), ctx.benign(scale=scale)))
    for groups in groups_of:
        small, large = (ctx.ask(*groups(scale)).fields for scale in (_SCALE, _SCALE**2))
        base = ctx.ask(*groups(1.0)).fields
        for path in finite:
            values = [fields.get(path) for fields in (base, small, large)]
            if all(_is_float(value) and math.isfinite(value) for value in values):
                step = values[1] - values[0]
                if step and math.isclose(step, values[2] - values[1], rel_tol=1e-5):
                    found.add(path)
    return found


def _is_float(value):
    return isinstance(value, float)


def _is_bad(value, is_logarithm):
    return _is_float(value) and not math.isfinite(value) and not (is_logarithm and value < 0)


def _all_finite(values):
    return all(_all_finite(value) if isinstance(value, list) else math.isfinite(value) for value in values)


def _divides_by_zero(error):
    return str(error).startswith("ZeroDivisionError")


def _raised(ctx, error, name, asked=""):
    text = str(error) + asked
    return ctx.measurement("raises", True, "truth", input=name, error=text, deliberate=error.deliberate)


def judge(measurements, policy):
    """Reproduced where a field that is usually finite is not, and where an exception is no refusal of its own."""
    found, refusals, breaks = {}, [], "stops"
    for m in measurements:
        if m.name == "raises" and m.case["deliberate"]:
            refusals.append("it refuses zero gradients: " + m.case["error"])
        elif m.name == "raises":
            found.setdefault("it raises " + m.case["error"], []).append(m.case["input"])
        elif m.name == "value":
            breaks = breaks if breaks == "wrong_step" else "wrong_answer"
            text = "{} is {}".format(m.case["field"] or "the answer", m.value)
            found.setdefault(text, []).append(m.case["input"])
        elif m.name == "nonfinite_fields" and m.case["gradients"]:
            breaks = "wrong_step"
            found.setdefault("the gradients become NaN or infinite", []).append(m.case["input"])
    if found:
        texts = ["{} ({})".format(text, ", ".join(dict.fromkeys(inputs))) for text, inputs in found.items()]
        rare = all(name.endswith(_NO_ELEMENTS) for inputs in found.values() for name in inputs)
        verdict = {"outcome": "reproduced", "message": "; ".join(texts), "breaks": breaks}
        return verdict | {"occurs": "rare" if rare else "common"}
    if refusals:
        return {"outcome": "not_reproduced", "message": "; ".join(dict.fromkeys(refusals))}
    ratios = next((m.case["ratios"] for m in measurements if m.name == "nonfinite_fields"), "")
    message = "every field stays finite for zero gradients and without any"
    return {"outcome": "not_reproduced", "message": message + (" (ratios: {})".format(ratios) if ratios else "")}


if __name__ == "__main__":
    run_alone(__file__)
