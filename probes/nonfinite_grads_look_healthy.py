"""Does a NaN or Inf gradient leave the answer finite, or its health untouched?"""

import math

PROBE = {
    "id": "nonfinite_grads_look_healthy",
    "version": 2,
    "title": "Non-finite gradients look healthy",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Correctness bug", "Numerical stability"],
    "agent": "PT",
    "severity": "P1",
    "lifecycle": "stable",
    "instrument": "numerics",
    "motivation": "Every comparison with NaN is false: a health score made from 'norm < low' and 'norm > high' stays "
    "perfect when all gradients are NaN, and an alarm that watches it never rings.",
    "method": "One NaN, and one Inf, is planted among small gradients. It is visible where a NaN or Inf count rises, "
    "a flag changes, a health value drops, a text or a list of names says something else, a number becomes None, the "
    "norm turns negative, or the target raises. Without a health value in the answer, a non-finite number in it is "
    "enough. A health value that stays as it is, is a finding of its own where other fields tell.",
    "limits": "A flag is any truth value, or 0.0 or 1.0, that differs from its value for sound gradients. A health "
    "value is told by its name. A text says something where it is the same for other sound gradients. A warning that "
    "the target only logs is not seen.",
    "remediation": "Count non-finite elements, or test the accumulated norm with isfinite, and let health depend on it "
    "before any threshold is compared.",
    "remediation_code": """import torch


def gradient_health(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if not grads:
        return {"grad_norm": 0.0, "health": 1.0, "is_finite": True}
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    norms = torch.stack([norm.to(norms[0].device) for norm in norms])
    norm = torch.linalg.vector_norm(norms).item()
    is_finite = norm - norm == 0.0
    return {"grad_norm": norm, "health": 1.0 if is_finite else 0.0, "is_finite": is_finite}
""",
    "verification": ["one NaN and one Inf among sound gradients change a count, a flag or the health value"],
    "measurements": {"visible": "truth", "health": "value", "health_stays": "truth", "norm": "norm"},
}


def measure(ctx):
    """Yield for NaN and for Inf: is it visible, by what, and what the norm and the health read."""
    sound = ctx.answer(ctx.benign())
    texts, others = ctx.words(ctx.benign()), ctx.words(ctx.benign(seed=1))
    for kind, planted in (("nan", {"nans": 1}), ("inf", {"infs": 1})):
        try:
            answer = ctx.answer(ctx.benign(**planted))
            said = ctx.words(ctx.benign(**planted))
        except ctx.TargetRaised as error:
            yield ctx.measurement("visible", True, "truth", kind=kind, by="raises " + str(error)[:80])
            continue
        signals = explicit_signals(ctx, sound, answer)
        # A text that differs between sound gradients, such as a number written out, says nothing.
        changed = [path for path in {**texts, **said} if said.get(path) != texts.get(path) == others.get(path)]
        signals += ["{}: {}".format(path or "the answer", said.get(path, "gone")) for path in changed]
        numbers = [
            path or "the answer"
            for path, value in answer.items()
            if isinstance(value, float) and not math.isfinite(value)
        ]
        has_health = bool(ctx.plan.health)
        visible = bool(signals) or (bool(numbers) and not has_health)
        by = ", ".join(signals or ([] if has_health else numbers)) or "nothing"
        yield ctx.measurement("visible", visible, "truth", kind=kind, by=by)
        stays = [
            path for path in ctx.plan.health if path in sound and path in answer and (path or "answer") not in signals
        ]
        for path in ctx.plan.health:
            yield ctx.measurement("health", answer.get(path), "value", kind=kind, field=path)
            yield ctx.measurement("health_stays", path in stays, "truth", kind=kind, field=path)
        if "norm" in ctx.roles:
            yield ctx.measurement("norm", answer.get(ctx.role("norm").path), "norm", kind=kind)
        if (stays or not visible) and not ctx.located:
            yield ctx.location(ctx.definition())


def explicit_signals(ctx, sound, answer):
    """What says so: a changed flag, a risen count, a dropped health value, a negative norm."""
    found = []
    for path, value in answer.items():
        before = sound.get(path)
        if isinstance(value, bool) and isinstance(before, bool):
            changed = value != before
        elif path in ctx.plan.health:
            changed = before is not None and not value >= before
        elif isinstance(value, float) and value in (0.0, 1.0) and before in (0.0, 1.0):
            changed = value != before
        else:
            changed = isinstance(value, int) and isinstance(before, int) and value != before
        if changed:
            found.append(path or "answer")
    norm = answer.get(ctx.role("norm").path) if "norm" in ctx.roles else None
    if isinstance(norm, (int, float)) and norm < 0:  # no norm is negative: a code for "not finite"
        found.append("the impossible norm {:g}".format(norm))
    counts = [ctx.role(kind).path for kind in ("nan", "inf") if kind in ctx.roles]
    found += [path for path in counts if answer.get(path) != sound.get(path) and path not in found]
    return found


def judge(measurements, policy):
    """Reproduced where NaN or Inf was not visible."""
    hidden = [m.case["kind"] for m in measurements if m.name == "visible" and not m.value]
    stays = [m for m in measurements if m.name == "health_stays" and m.value]
    if stays and not hidden:
        fields = sorted({m.case["field"] for m in stays})
        message = "{} stays as it is for a planted {}, which other fields tell".format(
            ", ".join(fields), " and ".join(sorted({m.case["kind"] for m in stays}, reverse=True))
        )
        return {"outcome": "reproduced", "severity": "P2", "message": message}
    if not hidden:
        by = "; ".join("{}: {}".format(m.case["kind"], m.case["by"]) for m in measurements if m.name == "visible")
        return {"outcome": "not_reproduced", "message": "NaN and Inf are visible ({})".format(by)}
    health = [
        "{} {} for {}".format(m.case["field"], m.value, m.case["kind"])
        for m in measurements
        if m.name == "health" and m.case["kind"] in hidden
    ]
    norms = [
        "norm {} for {}".format(m.value, m.case["kind"])
        for m in measurements
        if m.name == "norm" and m.case["kind"] in hidden
    ]
    message = "a planted {} is not flagged: {}".format(
        " and ".join(hidden), ", ".join(health + norms) or "the answer stays finite"
    )
    return {"outcome": "reproduced", "message": message}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
