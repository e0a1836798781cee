#!/usr/bin/env python3
"""Does a generator of gradients give the same result as a list?"""

from forms import attempt, rows, run_alone, text, verdict

PROBE = {
    "title": "A generator gives another result than a list",
    "categories": ["Correctness bug", "API design / contract violation"],
    "breaks": "wrong_norm",
    "occurs": "ordinary",
    "statement_does": "reads an exhausted iterator",
    "motivation": "module.parameters() is a generator. A second loop over it finds nothing: its counts are 0 and "
    "no error is raised.",
    "method": "The same gradients are passed as a list and as a generator. Every field, and the gradients afterwards, "
    "must be the same to six digits. Fields that differ between two equal calls are left out.",
    "limits": "A TypeError is not reported where a list is declared or bare gradients are taken, nor is the target's "
    "own refusal.",
    "remediation": "Make a list of the argument first, and use only the list.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"same_answer": "truth", "list_value": "value", "generator_value": "value"},
}


def measure(ctx):
    """Yield whether the results are the same, and every field that differs, for both."""
    takes = ctx.plan.feed.takes
    if takes not in ("parameters", "named_parameters", "gradients"):
        raise ctx.NotApplicable("it takes {} {}, not an iterable".format("an" if takes[0] == "o" else "a", takes))
    if ctx.plan.feed.container in ("single", "iterator"):
        raise ctx.NotApplicable("it takes one tensor, or only an iterator: there is no result for a list")
    (expected, left), (again, _) = (_result(ctx) for _ in range(2))
    clocks = set(ctx.unequal_fields(expected, again))
    case = {"takes": takes, "declares_list": ctx.declares_sized}
    found, error = attempt(ctx, _result, ctx, True)
    if error is not None:
        case.update(error=str(error), deliberate=error.deliberate)
        yield ctx.measurement("same_answer", False, "truth", **case)
        yield ctx.location(error.site or ctx.definition())
        return
    answer, left_by_generator = found
    differing = [path for path in ctx.differences(expected, answer) if path not in clocks]
    # A clip that finds nothing in the generator does not change the gradients.
    gradients = sum(grad.tolist() != other.tolist() for grad, other in zip(left, left_by_generator, strict=True))
    yield ctx.measurement("same_answer", not differing and not gradients, "truth", gradients=gradients, **case)
    for path in differing:
        yield from rows(ctx, PROBE, {"field": path}, list_value=expected[path], generator_value=answer.get(path))
    yield ctx.location(ctx.where_read_again(ctx.benign(), ctx.benign(seed=1)))


def _result(ctx, one_pass=False):
    """Return the numbers of the result, and the gradients after the call."""
    grads = ctx.benign()
    return ctx.ask(grads, ctx.benign(seed=1), one_pass=one_pass).fields, grads


def judge(measurements, policy):
    """Reproduced if a value differs, or a generator raises an unintended exception."""
    same = next(m for m in measurements if m.name == "same_answer")
    case = same.case
    if same.value:
        return verdict(False, "a generator and a list give the same result")
    if "error" in case:
        wants_list = case["declares_list"] or case["takes"] == "gradients"
        if case["deliberate"] or (wants_list and case["error"].startswith("TypeError")):
            return verdict(False, "it refuses a generator: " + case["error"])
        message = "a generator of {} raises {}; a list of them does not".format(case["takes"], case["error"])
        return verdict(True, message, breaks="stops", occurs={"generator": "rare"})
    expected, answer = (
        {m.case["field"]: text(m.value, 4) for m in measurements if m.name == name}
        for name in ("list_value", "generator_value")
    )
    words = "{} {} for a generator, {} for a list"
    texts = [words.format(path or "the result", answer[path], value) for path, value in expected.items()]
    if case["gradients"]:
        texts.append("{} gradients are left with other values".format(case["gradients"]))
    # torch's own examples pass model.parameters(), a generator; a generator of tensors or of names is rarer.
    usual = "ordinary" if case["takes"] == "parameters" else "common"
    return verdict(True, "; ".join(texts), occurs={"generator": "extreme" if case["declares_list"] else usual})


if __name__ == "__main__":
    run_alone(__file__)
