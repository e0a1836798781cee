#!/usr/bin/env python3
"""Do gradients of several dtypes raise, or change the answer?"""

from forms import run_alone

PROBE = {
    "version": 2,
    "title": "Gradients of several dtypes raise or change the result",
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_norm",
    "occurs": "common",
    "motivation": "Norm layers stay in float32 while the rest trains in bfloat16. A collector that assumes the first "
    "gradient's dtype raises, or drops the others and reports a norm that is too small.",
    "method": "Four gradients in two dtypes by turns (float32 with bfloat16, float16, float64; bfloat16 with float16) "
    "and in all four; of two groups also one in each. Norm and counts must be those of float32. Every dtype holds all "
    "values exactly.",
    "limits": "Other fields are not compared, but must not be fewer. Rounding to 16 bits is not reported. Integer, "
    "complex and 8-bit gradients are not tried.",
    "remediation": "Let an operator with a dtype argument convert, such as torch._foreach_norm(grads, 2, "
    "dtype=torch.float64). Allocate accumulators in a fixed dtype.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"raises": "truth", "relative_difference": "ratio"},
    # Two roundings to bfloat16, which has 8 significant bits.
    "policy": {"tolerance": 0.0078125},
}

_MIXES = (
    ("float32", "bfloat16"),
    ("float32", "float16"),
    ("float32", "float64"),
    ("bfloat16", "float16"),
    ("float32", "bfloat16", "float16", "float64"),
)
_WIDE = ("float32",)


def measure(ctx):
    """Yield for every mix whether it raises, and how far norm and counts are from those of float32."""
    for role, make in ctx.compared_roles():
        references = {}
        for mix, name, first, second in _arrangements(ctx, role):
            if second not in references:
                references[second] = ctx.reference_number(role, make, ctx.as_dtypes, _WIDE, second)
            case = {"dtype": "+".join(mix), "arrangement": name}
            try:
                value = ctx.number_of_changed(role, make, ctx.as_dtypes, first, second)
            except ctx.TargetRaised as error:
                case.update(error=str(error), deliberate=error.deliberate, alone=_raise_alone(ctx, mix))
                yield ctx.measurement("raises", True, "truth", **case)
                if not ctx.located:
                    yield ctx.location(error.site or ctx.definition())
                continue
            yield ctx.measurement("raises", False, "truth", **case)
            expected, is_stable = references[second]
            if not is_stable or (role is None and value >= expected):
                continue
            difference = ctx.relative_difference(value, expected)
            case.update(field=_field(ctx, role), role=role, answer=_text(value), expected=_text(expected))
            yield ctx.measurement("relative_difference", difference, "ratio", **case)
            if _is_wrong(role, difference, PROBE["policy"]) and not ctx.located:
                mixed, wide = (ctx.as_dtypes(make(), dtypes) for dtypes in (first, _WIDE))
                yield ctx.location(ctx.definition() if second else ctx.where_different(mixed, wide))


def _arrangements(ctx, role):
    """Mix, name, the dtypes of the first group by turns, and those of the second (None: as the plan found it)."""
    if role not in ("norm", None):  # three gradients show the first three dtypes of all four
        yield _MIXES[-1], "{} first".format(_MIXES[-1][0]), _MIXES[-1], None
        return
    for mix in _MIXES:
        yield mix, "{} first".format(mix[0]), mix, None
        yield mix, "{} first".format(mix[-1]), mix[::-1], None
        if ctx.plan.groups > 1 and len(mix) == 2:
            yield mix, "the first group {}, the second {}".format(*mix), mix[:1], mix[1:]


def _raise_alone(ctx, mix):
    """The dtypes of the mix that raise without any other."""
    found = []
    for dtype in mix:
        try:
            ctx.answer(ctx.as_dtypes(ctx.powers_of_two(), [dtype]))
        except ctx.TargetRaised:
            found.append(dtype)
    return ", ".join(found)


def _field(ctx, role):
    """The field that is compared; an answer without norm and counts must still hold as many numbers."""
    return "the count of its numbers" if role is None else ctx.role(role).path or role


def _text(value):
    return "missing" if value is None else "{:.6g}".format(value)


def _is_wrong(role, difference, policy):
    """A count is exact; a fraction of it is one float32 division away."""
    return difference > (policy["tolerance"] if role == "norm" else 1e-6)


def judge(measurements, policy):
    """Reproduced where a mix changes the answer or raises."""
    compared = [m for m in measurements if m.name == "relative_difference"]
    wrong = [m for m in compared if _is_wrong(m.case["role"], m.value, policy)]
    raised = [m for m in measurements if m.name == "raises" and m.value]
    if wrong:
        worst = max(wrong, key=lambda m: m.value)
        message = "{dtype} ({arrangement}): {field} is {answer} instead of {expected}, the answer in float32".format(
            **worst.case
        )
        return {"outcome": "reproduced", "message": message}
    if raised:
        first = raised[0].case
        mixes = ", ".join(dict.fromkeys(m.case["dtype"] for m in raised))
        alone = ", ".join(dict.fromkeys(m.case["alone"] for m in raised if m.case["alone"]))
        message = "raises for gradients of {}: {}{}".format(
            mixes, first["error"], " ({} alone raises too)".format(alone) if alone else ""
        )
        # A refusal in the checkout's own words was meant: who mixes dtypes is told what to do.
        # Few models have float64 gradients.
        unmeant = [m for m in raised if not m.case["deliberate"]]
        is_rare = all("float64" in m.case["dtype"] for m in unmeant)
        occurs = "extreme" if not unmeant else "rare" if is_rare else "common"
        return {"outcome": "reproduced", "breaks": "stops", "occurs": occurs, "message": message}
    mixes = ", ".join(dict.fromkeys(m.case["dtype"] for m in measurements))
    fields = sorted({m.case["field"] for m in compared})
    what = "the {} of float32".format(", ".join(fields)) if fields else "an answer, without a norm or count to compare"
    return {"outcome": "not_reproduced", "message": "gradients of {} give {}".format(mixes, what)}


if __name__ == "__main__":
    run_alone(__file__)
