"""What does the target return? Every number of its results for seeded gradients, to compare revisions.

It claims no defect, so it is in no list of probes: a comparison runs it beside them.
"""

import math

from forms import rows, run_alone, verdict

PROBE = {
    "version": 2,
    "title": "The target's results for seeded gradients",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": [],
    "breaks": "upkeep",
    "occurs": "extreme",
    "lifecycle": "experimental",
    "motivation": "A rewrite that is meant to change only speed must return the same values.",
    "method": "Every number of the result is recorded for gradients of several dtypes, shapes, magnitudes, layouts and "
    "special values from fixed seeds, with the exact norm and the difference that two careful results may have. The "
    "types of the parts are recorded too, also on the simulated device and in two ranks of which one has no gradients.",
    "limits": "The allowed difference is derived for sums of terms of one sign. Tensors of several elements are not "
    "compared.",
    "remediation": "",
    "measurements": {
        "answer": "value",
        "raises": "text",
        "left_norm": "norm",
        "exact_norm": "norm",
        "allowed_difference": "ratio",
        "type": "text",
    },
    "policy": {"accumulators": 4, "roundings": 3},
}

# (pattern, tensors, elements of each, magnitude): known_norms are all of one sign, so that sums are well conditioned.
_SHAPES = (
    ("random", 1, 1, 1.0),
    ("random", 4, 1024, 1.0),
    ("random", 256, 256, 1.0),
    ("outlier_tensor", 64, 256, 1.0),
    ("outlier_element", 1, 1 << 20, 1.0),
)
_DTYPES = ("float32", "float64", "bfloat16", "float16", "mixed")
_MAGNITUDES = (1e-30, 1e-12, 1e-4, 1e4, 1e12, 1e18, 1e20, 1e30)
_PLANTED = ({"zeros": 5}, {"nans": 2}, {"infs": 2}, {"zeros": 3, "nans": 2, "infs": 1})
_TYPED = ("seeded", "dtypes and shapes", "missing and empty", "on a GPU", "two ranks, one without gradients")
_RANKS_MAY_DIFFER = 1e-5
_ROUNDING = {"bfloat16": 2.0**-8, "mixed": 2.0**-8, "float16": 2.0**-11}


def measure(ctx):
    """Yield for every case its exact norm, the allowed difference, and every field of the result, or the exception.

    Also yield the types of the result's parts, and each of two ranks' results if the target can reach a collective.
    """
    for family, case, make in _cases(ctx):
        case = {"family": family, **case}
        grads, second = make()
        exact, allowed = ctx.exact_norm([g for g in grads if g is not None]), _allowed(case, grads, PROBE["policy"])
        yield from rows(ctx, PROBE, case, exact_norm=exact, allowed_difference=allowed)
        try:
            answer, types = ctx.answer_with_types(grads, second)
        except ctx.TargetRaised as error:
            yield ctx.measurement("raises", str(error).partition(":")[0], "text", **case, error=str(error))
            continue
        for field, value in answer.items():
            yield ctx.measurement("answer", value, "value", **case, field=field)
        yield from _types(ctx, types, case)
        if ctx.plan.clips:
            left = [grad for grad in ctx.left_by(make()[0]) if grad is not None]
            yield ctx.measurement("left_norm", ctx.exact_norm(left), "norm", **case)
    yield from _of_two_ranks(ctx)
    if ctx.device == "cpu":
        yield from _types(ctx, ctx.types_on_simulated_device(), {"family": "on a GPU", "dtype": "float32"})


def _types(ctx, types, case):
    """Return the types of the parts of ordinary results; the values do not change them."""
    if case["family"] in _TYPED:
        for field, found in types.items():
            yield ctx.measurement("type", found, "text", **case, field=field)


def _of_two_ranks(ctx):
    """Yield the results of two ranks, of which the second has no gradient, if the target can reach a collective."""
    for rank, found in enumerate(ctx.answers_of_two_ranks()):
        case = {"family": "two ranks, one without gradients", "dtype": "float32", "rank": rank}
        yield ctx.measurement("allowed_difference", _RANKS_MAY_DIFFER, "ratio", **case)
        if "raised" in found:
            yield ctx.measurement("raises", found["raised"].partition(":")[0], "text", **case, error=found["raised"])
            continue
        for field, value in found["numbers"].items():
            yield ctx.measurement("answer", value, "value", **case, field=field)
        yield from _types(ctx, found["types"], case)


def _cases(ctx):
    """Yield (family, case, maker of the gradients and of the second group, which is None for the plan's own)."""
    for seed in (0, 1, 2):
        yield "seeded", {"dtype": "float32", "seed": seed}, _alone(ctx.benign, seed=seed)
    for dtype in _DTYPES:
        for pattern, tensors, elements, magnitude in _SHAPES:
            case = {"dtype": dtype, "pattern": pattern, "tensors": tensors, "elements": tensors * elements}
            known = pattern, tensors, elements, dtype, magnitude
            yield "dtypes and shapes", case, _alone(lambda known=known: ctx.known_norm(*known)[0])
    for magnitude in _MAGNITUDES:
        yield "magnitudes", {"dtype": "float32", "magnitude": magnitude}, _alone(ctx.benign, scale=magnitude)
    for planted in _PLANTED:
        named = ", ".join("{} {}".format(count, name) for name, count in planted.items())
        yield "special values", {"dtype": "float32", "planted": named}, _alone(ctx.benign, **planted)
    yield "special values", {"dtype": "float32", "planted": "all zero"}, _alone(ctx.gradients, 3, 64, magnitude=0.0)
    for layout in ctx.layouts:
        yield "layouts", {"dtype": "float32", "layout": layout}, _alone(ctx.laid_out, layout)
    for form in ("coalesced", "uncoalesced") if ctx.device != "simulated" else ():
        yield "layouts", {"dtype": "float32", "layout": "sparse, " + form}, _alone(ctx.sparse, form)
    missing = {"some missing": lambda: ctx.interleaved(ctx.benign()), "all missing": lambda: [None, None], "none": list}
    for name, make in missing.items():
        yield "missing and empty", {"dtype": "float32", "gradients": name}, _alone(make)
    if ctx.plan.groups > 1:
        for seed in (1, 2):
            case = {"dtype": "float32", "seed": seed}
            yield "two groups", case, lambda seed=seed: (ctx.benign(), ctx.benign(seed=seed))


def _alone(make, *args, **kwargs):
    return lambda: (make(*args, **kwargs), None)


def _allowed(case, grads, policy):
    """Return twice the error of one careful result, see norm_loses_accuracy."""
    given = [grad for grad in grads if grad is not None]
    steps = sum(grad.numel() for grad in given) / policy["accumulators"] + len(given) + 16
    summing = 1.0 - math.sqrt(max(0.0, 1.0 - steps * 2.0**-24))
    return 2 * (summing + policy["roundings"] * _ROUNDING.get(case["dtype"], 0.0))


def judge(measurements, policy):
    """Judge nothing: a comparison reads the results of two revisions."""
    fields = [m for m in measurements if m.name == "answer"]
    return verdict(False, "{} numbers returned".format(len(fields)))


if __name__ == "__main__":
    run_alone(__file__)
