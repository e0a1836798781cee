#!/usr/bin/env python3
"""Do gradients of several dtypes raise, or change the result?"""

from forms import compare_numbers, run_alone, verdict

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


def measure(ctx):
    """Yield for every mix whether it raises, and how far norm and counts are from those of float32."""

    def arrangements(role):
        # Three gradients show the first three dtypes of all four.
        for mix in _MIXES if role in ("norm", None) else _MIXES[-1:]:
            case = {"dtype": "+".join(mix)}
            yield {**case, "arrangement": mix[0] + " first"}, mix, None
            if role not in ("norm", None):
                continue
            yield {**case, "arrangement": mix[-1] + " first"}, mix[::-1], None
            if ctx.plan.groups > 1 and len(mix) == 2:
                name = "the first group {}, the second {}".format(*mix)
                yield {**case, "arrangement": name}, mix[:1], mix[1:]

    def is_wrong(role, difference):
        return _is_wrong(role, difference, PROBE["policy"])

    yield from compare_numbers(ctx, arrangements, ctx.as_dtypes, ("float32",), is_wrong)


def _is_wrong(role, difference, policy):
    """Return whether a role's number is off: counts are exact, a fraction of them is one float32 division away."""
    return difference > (policy["tolerance"] if role == "norm" else 1e-6)


def _need(m):
    return "float64" if "float64" in m.case["dtype"] else "16-bit"


def judge(measurements, policy):
    """Reproduced if a mix changes the result or raises."""
    compared = [m for m in measurements if m.name == "relative_difference"]
    wrong = [m for m in compared if _is_wrong(m.case["role"], m.value, policy)]
    raised = [m for m in measurements if m.name == "raises" and m.value]
    mixes = ", ".join(dict.fromkeys(m.case["dtype"] for m in raised or measurements))
    if wrong:
        message = "{dtype} ({arrangement}): {field} is {answer} instead of {expected}, the result in float32"
        worst = max(wrong, key=lambda m: m.value)
        return verdict(True, message.format(**worst.case), occurs={_need(m): "common" for m in wrong})
    if raised:
        # An error in the checkout's own words is intended.
        occurs = {_need(m): "common" for m in raised if not m.case["deliberate"]} or "extreme"
        message = "raises for gradients of {}: {}".format(mixes, raised[0].case["error"])
        return verdict(True, message, breaks="stops", occurs=occurs)
    fields = sorted({m.case["field"] for m in compared})
    what = "the {} of float32".format(", ".join(fields)) if fields else "a result, without a norm or count to compare"
    return verdict(False, "gradients of {} give {}".format(mixes, what))


if __name__ == "__main__":
    run_alone(__file__)
