#!/usr/bin/env python3
"""Do bfloat16 and float16 gradients raise, or lose digits that float32 keeps?"""

from forms import run_alone, verdict

PROBE = {
    "title": "16-bit gradients are refused or lose accuracy",
    "contracts": ["aligned_svd", "spectral_echo"],
    "categories": ["Numerical stability", "Correctness bug"],
    "breaks": "wrong_answer",
    "occurs": "rare",
    "devices": ["cuda", "cpu"],
    "motivation": "torch.linalg.svd has no 16-bit kernel: an analysis that worked in float32 ends with 'not "
    "implemented'. A result rounded back to 16 bits keeps two or three digits.",
    "method": "The same replicas in bfloat16 and float16 are compared with their values in float32: singular values, "
    "lengths of singular vectors, echoes.",
    "limits": "What 16 bits lost before the call is not held against the target. Directions of vectors are not "
    "compared.",
    "remediation": "Convert to float32 before the decomposition, a chunk of replicas at a time, and leave the results "
    "in float32.",
    "remediation_code": "remedies/aligned_svds.py",
    "measurements": {"raises": "truth", "relative_error": "ratio"},
    "policy": {"tolerance": 0.0001},
}

_DTYPES = ("bfloat16", "float16")
_REPLICAS, _ROWS, _COLUMNS = 5, 24, 6


def measure(ctx):
    """Yield for both dtypes whether the target raises, or how far its result is from that in float32."""
    for dtype in _DTYPES:
        grads = ctx.matrices("replicas", _REPLICAS, _ROWS, _COLUMNS, noise=0.3, dtype=dtype)
        try:
            answer = _numbers(ctx, grads)
        except ctx.TargetRaised as error:
            yield ctx.measurement("raises", True, "truth", dtype=dtype, how=str(error)[:160])
            if not ctx.located:
                yield ctx.location(error.site or ctx.definition())
            continue
        expected = _numbers(ctx, ctx.widened(grads))
        error = max(_difference(answer[name], expected[name]) for name in expected)
        yield ctx.measurement("raises", False, "truth", dtype=dtype)
        yield ctx.measurement("relative_error", error, "ratio", dtype=dtype)
    if not ctx.located:
        yield ctx.location(ctx.definition())


def _numbers(ctx, grads):
    """Return what can be compared, by name, each as a tensor whose largest element is about 1."""
    if "echo" in ctx.roles:
        return {"echo": ctx.echoes(grads)}
    found = ctx.factors(grads)
    numbers = {name: found[name].norm(dim=1) for name in ("left", "right") if name in found}
    if "svals" in found:
        numbers["svals"] = found["svals"].sort(dim=1).values
    return numbers


def _difference(values, expected):
    """Return the largest difference relative to the largest expected value; infinite if shapes or NaNs differ."""
    if values.shape != expected.shape:
        return float("inf")
    difference = float((values - expected).abs().max() / expected.abs().max())
    return difference if difference == difference else float("inf")


def judge(measurements, policy):
    """Reproduced if a 16-bit dtype raises, or is off by more than the policy's tolerance."""
    raised = {m.case["dtype"]: m.case["how"] for m in measurements if m.name == "raises" and m.value}
    errors = {m.case["dtype"]: m.value for m in measurements if m.name == "relative_error"}
    if raised:
        message = "; ".join("{} gradients raise {}".format(dtype, how) for dtype, how in raised.items())
        return verdict(True, message, breaks="stops", occurs="common")
    worst = max(errors, key=errors.get)
    text = "{:.2g} of the largest value for {}, against the same values in float32".format(errors[worst], worst)
    if errors[worst] > policy["tolerance"]:
        return verdict(True, "the result is off by " + text)
    return verdict(False, "both 16-bit dtypes are taken; the result is within " + text)


if __name__ == "__main__":
    run_alone(__file__)
