#!/usr/bin/env python3
"""Does an input without gradients change the result's type, or raise?"""

import contextlib
import re

from forms import attempt, joined, run_alone, verdict

PROBE = {
    "title": "An empty input changes the result's type",
    "categories": ["API design / contract violation", "Correctness bug"],
    "breaks": "stops",
    "occurs": "rare",
    "motivation": "Before the first backward, or with a frozen model, there are no gradients. A missing key, a float "
    "instead of a tensor, or an exception from inside torch stops the run there.",
    "method": "The fields and kinds that the results for three, two and one gradients share must be in the results for "
    "no tensors and for parameters without gradients; of two groups, in either and in both.",
    "limits": "An int for a float, additional fields, None where the annotation allows it, and an exception in the "
    "target's own words about missing gradients are not judged.",
    "remediation": "Return from one place: let the sums of nothing be zeros of the usual kind.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"raises": "truth", "missing_fields": "count", "changed_kinds": "count"},
}

_SPEAKS_OF_NOTHING = re.compile(r"empty|no\b|none|without|nothing|missing|at least|zero|backward", re.IGNORECASE)
# torch's error for an optimizer without parameters, raised before the target is called.
_OPTIMIZERS_REFUSAL = "ValueError: optimizer got an empty parameter list"
_MOST_FIELDS, _MOST_INPUTS = 8, 2


def measure(ctx):
    """Yield for every empty input and every step: whether it raises, how many fields it lacks or changes."""
    if ctx.reads(0) and not ctx.reads(0, first=1):
        raise ctx.NotApplicable("its result depends on a single gradient by position: it is about that parameter alone")
    # The collecting step comes first: if it raises, the whole call does.
    steps = ([("pending result", False)] if ctx.has_finish else []) + [("result", True)]
    usual = {step: _usual_structure(ctx, whole) for step, whole in steps}
    sites, refusals = [], []

    def raised(error, text, is_meant, case):
        (refusals if is_meant else sites).append(error.site)
        return ctx.measurement("raises", True, "truth", error=text, deliberate=is_meant, **case)

    for name, first, second in _empty_inputs(ctx):
        for step, whole in steps:
            case = {"input": name, "step": step}
            answer, error = attempt(ctx, ctx.ask, first, second, whole)
            if error is not None:
                yield raised(error, str(error), error.deliberate or str(error) == _OPTIMIZERS_REFUSAL, case)
                break
            missing, changed = _compare(usual[step], answer)
            for path in sorted(answer.broken.keys() & usual[step].keys()):
                error = answer.broken[path]
                yield raised(error, "{} (on access to {})".format(error, path), error.deliberate, case)
            yield ctx.measurement("missing_fields", len(missing), "count", fields=missing, **case)
            yield ctx.measurement("changed_kinds", len(changed), "count", fields=changed, **case)
            sites += [answer.site] if missing or changed else []
    yield ctx.location(next((site for site in sites + refusals if site is not None), None) or ctx.definition())


def _usual_structure(ctx, whole):
    """Return the parts that the results for three, two and one gradients have in common."""
    sound, other = ctx.benign(), ctx.benign(seed=1)
    answers = [ctx.ask(sound, other, whole)]
    for count in (2, 1):
        with contextlib.suppress(ctx.TargetRaised):
            answers.append(ctx.ask(sound[:count], other[:count], whole))
    return ctx.common_structure(answers)


def _empty_inputs(ctx):
    """Yield the name, first and second group of every input with a group without gradients."""
    empties = {"no tensors": []}
    if ctx.plan.feed.takes != "gradients":
        empties["no gradients yet"] = [None, None, None]
    for name, empty in empties.items():
        if ctx.plan.groups > 1:
            yield name + " in the first group", empty, ctx.benign(seed=1)
            yield name + " in the second group", ctx.benign(), empty
        yield name, empty, empty


def _compare(usual, answer):
    """Return the fields that `answer` lacks, and those of another kind, without their children."""
    missing, changed = [], []
    reported = set(answer.broken)
    for path, kind in usual.items():
        now = answer.structure.get(path)
        is_below = any(parent == "" or path.startswith(parent + ".") for parent in reported)
        if path in reported or is_below or now == kind:
            continue
        if now is None:
            missing.append(path)
        elif kind != "None" and not now.startswith("None,") and (kind, now) != ("text", "None"):
            kinds = (each if each == "None" else "a " + each for each in (now, kind))
            changed.append("{} is {} instead of {}".format(path or "it", *kinds))
        reported.add(path)
    return missing, changed


def judge(measurements, policy):
    """Reproduced on a missing field, a changed kind, and an exception whose text does not name gradients."""
    inputs, refusals, reaches_caller = {}, [], False
    for m in measurements:
        is_raised = m.name == "raises"
        if is_raised and m.case["deliberate"] and _SPEAKS_OF_NOTHING.search(m.case["error"]):
            refusals.append(m.case["error"])
        elif is_raised or m.value:
            inputs.setdefault(_clause(m), []).append(m.case["input"])
            reaches_caller |= is_raised or (m.case["step"] == "result" and m.name != "missing_fields")
    if inputs:
        given = {text: joined(list(dict.fromkeys(names)), _MOST_INPUTS) for text, names in inputs.items()}
        texts = ["{} ({})".format(text, names) for text, names in given.items()]
        # A mapping without a total may be intended, and the second step may know what a pending result lacks.
        return verdict(True, "; ".join(texts), breaks="stops" if reaches_caller else "upkeep", occurs={"empty": "rare"})
    if refusals:
        return verdict(False, "it reports that there are no gradients: " + "; ".join(dict.fromkeys(refusals)))
    return verdict(False, "the result without gradients has the fields and kinds of the usual one")


def _clause(m):
    if m.name == "raises":
        return "raises " + m.case["error"]
    fields = joined(m.case["fields"], _MOST_FIELDS)
    if m.name == "missing_fields":
        return "the {} lacks {}".format(m.case["step"], fields)
    if fields.startswith("it is"):
        return "the {} {}".format(m.case["step"], fields[3:])
    return "in the {}, {}".format(m.case["step"], fields)


if __name__ == "__main__":
    run_alone(__file__)
