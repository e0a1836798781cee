#!/usr/bin/env python3
"""Are gradients unscaled before they are clipped and used?"""

from forms import run_alone, verdict

PROBE = {
    "title": "Gradients are clipped while a GradScaler's factor is in them",
    "contracts": ["train_step"],
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_step",
    "occurs": "common",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": "A GradScaler multiplies the loss by up to 65,536. Clipped before unscale_, every step is cut to "
    "limit / scale; used without unscaling, a step is that much too large.",
    "method": "auditkit trains a small model with your step and records every backward, clip and optimizer step. The "
    "step gets a GradScaler of 1024. The norms at the clip and at the optimizer step are divided by that of the "
    "unscaled gradients.",
    "limits": "The small model runs on the host in one process: sharding, compiled steps and optimizers outside torch "
    "are not seen. Clipping by other code than torch's is seen by its effect only.",
    "remediation": "Call scaler.unscale_(optimizer) once after the last backward, then clip, then "
    "scaler.step(optimizer) and scaler.update().",
    "remediation_code": "remedies/training_step.py",
    "measurements": {"scale": "ratio", "factor_at_clip": "ratio", "factor_at_step": "ratio", "refused": "truth"},
    "policy": {"allowed_factor": 1.1},
}


def measure(ctx):
    """Yield the scaler's factor, and how much of it is left in the gradients at the clip and at the step."""
    found = ctx.steps.scaled()
    yield ctx.measurement("scale", found.scale, "ratio")
    if found.at_clip is not None:
        yield ctx.measurement("factor_at_clip", found.at_clip, "ratio")
    yield ctx.measurement("factor_at_step", found.at_step, "ratio")
    if found.refused:
        yield ctx.measurement("refused", True, "truth", message=found.refused)
    yield ctx.location(found.site)


def judge(measurements, policy):
    """Reproduced if the factor is still in the gradients at the clip or at the step."""
    seen = {each.name: each.value for each in measurements}
    refusal = next((each.case["message"] for each in measurements if each.name == "refused"), None)
    if refusal is not None:
        message = "with an enabled GradScaler the step raises: {}".format(refusal)
        return verdict(True, message, breaks="stops")
    at_clip, at_step = seen.get("factor_at_clip", 1.0), seen["factor_at_step"]
    if at_clip > policy["allowed_factor"]:
        message = "gradients are clipped before they are unscaled (scale {:g}): {:.4g} times their true norm"
        return verdict(True, message.format(seen["scale"], at_clip))
    if at_step > policy["allowed_factor"]:
        message = "the optimizer gets gradients {:.4g} times their true size: the scale is {:g}"
        return verdict(True, message.format(at_step, seen["scale"]))
    if at_step * seen["scale"] < policy["allowed_factor"]:
        message = "the optimizer gets gradients that were divided by the scale {:g} twice"
        return verdict(True, message.format(seen["scale"]))
    return verdict(False, "gradients are unscaled (scale {:g}) before they are clipped and used".format(seen["scale"]))


if __name__ == "__main__":
    run_alone(__file__)
