#!/usr/bin/env python3
"""Is the answer to a generator of gradients the answer to the list of them?"""

PROBE = {
    "id": "fails_on_generator_input",
    "version": 1,
    "title": "A generator gives another answer than a list",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Correctness bug", "API design / contract violation"],
    "agent": "PT",
    "breaks": "wrong_norm",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "statement_does": "reads an iterator that is at its end",
    "instrument": "numerics",
    "motivation": "module.parameters() is a generator: the second loop over it finds nothing. What that loop counts is "
    "0, what it looks for is never found, and nothing says so; or it raises for an input that its annotation allows.",
    "method": "The same gradients are handed over once as a list and once as a generator. Every field of the answer "
    "must be the same to six digits, and so must the gradients be afterwards. Fields that differ between two equal "
    "calls with a list (a clock) are left out.",
    "limits": "A TypeError for a generator is not reported where the argument is declared as a list or takes bare "
    "gradients, nor is any refusal in the target's own words. Targets that take a module are not asked.",
    "remediation": "Make a list of the argument first, and use nothing but the list from then on.",
    "remediation_code": """import torch


def layer_norms(parameters):
    grads = [p.grad for p in list(parameters) if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if not grads:
        return {"grad_norm": 0.0, "max_norm": 0.0, "tensors": 0}
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    norms = torch.stack([norm.to(norms[0].device) for norm in norms])
    total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": total, "max_norm": largest, "tensors": len(grads)}
""",
    "verification": ["a generator and a list of the same gradients give the same answer"],
    "measurements": {"same_answer": "truth", "list_value": "value", "generator_value": "value"},
}


def measure(ctx):
    """Yield whether the answers are the same, and every field that differs, for both."""
    takes = ctx.plan.feed.takes
    if takes not in ("parameters", "named_parameters", "gradients"):
        raise ctx.NotApplicable("it takes {} {}, not an iterable".format("an" if takes[0] == "o" else "a", takes))
    if ctx.plan.feed.container == "single":
        raise ctx.NotApplicable("it takes one tensor, not an iterable")
    if ctx.plan.feed.container == "iterator":
        raise ctx.NotApplicable("it answers only to an iterator: there is no list's answer to compare with")
    expected, left = _ask(ctx, one_pass=False)
    again, _ = _ask(ctx, one_pass=False)
    clocks = set(ctx.unequal_fields(expected, again))
    case = {"takes": takes, "declares_list": ctx.declares_sized}
    try:
        answer, left_by_generator = _ask(ctx, one_pass=True)
    except ctx.TargetRaised as error:
        case.update(error=str(error), deliberate=error.deliberate)
        yield ctx.measurement("same_answer", False, "truth", **case)
        yield ctx.location(error.site or ctx.definition())
        return
    differing = [path for path in ctx.differences(expected, answer) if path not in clocks]
    gradients = _differing_tensors(left, left_by_generator)
    yield ctx.measurement("same_answer", not differing and not gradients, "truth", gradients=gradients, **case)
    for path in differing:
        yield ctx.measurement("list_value", expected[path], "value", field=path)
        yield ctx.measurement("generator_value", answer.get(path), "value", field=path)
    yield ctx.location(ctx.where_read_again(ctx.benign(), ctx.benign(seed=1)))


def _ask(ctx, one_pass):
    """The numbers of the answer, and the gradients as the call leaves them."""
    grads = ctx.benign()
    return ctx.ask(grads, ctx.benign(seed=1), one_pass=one_pass).fields, grads


def _differing_tensors(grads, others):
    """How many gradients one call left with other values than the other: clipped by one of them only."""
    return sum(grad.tolist() != other.tolist() for grad, other in zip(grads, others, strict=False))


def judge(measurements, policy):
    """Reproduced where a value differs, and where the generator raises what no one meant to raise."""
    same = next(m for m in measurements if m.name == "same_answer")
    case = same.case
    if same.value:
        return {"outcome": "not_reproduced", "message": "a generator and a list give the same answer"}
    if "error" in case:
        wants_list = case["declares_list"] or case["takes"] == "gradients"
        if case["deliberate"] or (wants_list and case["error"].startswith("TypeError")):
            return {"outcome": "not_reproduced", "message": "it refuses a generator: " + case["error"]}
        message = "a generator of {} raises {}; a list of them does not".format(case["takes"], case["error"])
        return {"outcome": "reproduced", "message": message, "breaks": "stops", "occurs": "rare"}
    lists = {m.case["field"]: m.value for m in measurements if m.name == "list_value"}
    generators = {m.case["field"]: m.value for m in measurements if m.name == "generator_value"}
    texts = [
        "{} {} for a generator, {} for a list".format(path or "the answer", _shown(generators[path]), _shown(value))
        for path, value in lists.items()
    ]
    if case["gradients"]:
        texts.append("{} gradients are left with other values".format(case["gradients"]))
    # torch's own examples pass model.parameters(), a generator; one of tensors, or of names, is rarer.
    verdict = {"outcome": "reproduced", "message": "; ".join(texts)}
    verdict["occurs"] = "ordinary" if case["takes"] == "parameters" else "common"
    return verdict


def _shown(value):
    if value is None:
        return "missing"
    return "{:.4g}".format(value) if isinstance(value, float) else str(value)


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
