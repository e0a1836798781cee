#!/usr/bin/env python3
"""Are gradients clipped, and used, without the factor that a GradScaler multiplied the loss by?"""

PROBE = {
    "id": "clip_on_scaled_gradients",
    "version": 1,
    "title": "Gradients are clipped while a GradScaler's factor is in them",
    "contracts": ["train_step"],
    "categories": ["Correctness bug", "Numerical stability"],
    "agent": "PT",
    "breaks": "wrong_step",
    "occurs": "common",
    "lifecycle": "stable",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": (
        "A GradScaler multiplies the loss by up to 65,536 so that float16 gradients do not vanish. Clipped "
        "before unscale_, every gradient is above the limit, every step is cut to limit / factor, and the "
        "learning rate changes whenever the scaler changes its factor. Used without unscaling, a step is as "
        "much too large. unscale_ twice before one step, or after it, raises an error."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. The step is handed a GradScaler of 1024, which scales on the "
        "host as on a device. The norm of the gradients that torch's clipping is called with, and that of "
        "those the optimizer is handed, are divided by that of the unscaled gradients."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. Clipping by other code than torch's "
        "is seen by its effect alone. A scaler that is made inside a function that was not run is not seen."
    ),
    "remediation": (
        "Call scaler.unscale_(optimizer) once after the last backward of a step, then clip, then "
        "scaler.step(optimizer) and scaler.update()."
    ),
    "remediation_code": "remedies/training_step.py",
    "verification": ["gradients have no factor in them when they are clipped, and when they are used"],
    "measurements": {"scale": "ratio", "factor_at_clip": "ratio", "factor_at_step": "ratio", "refused": "truth"},
    "policy": {"allowed_factor": 1.1},
}


def measure(ctx):
    """Yield the scaler's factor, and what of it is in the gradients at the clip and at the step."""
    found = ctx.steps.scaled()
    yield ctx.measurement("scale", found.scale, "ratio")
    if found.at_clip is not None:
        yield ctx.measurement("factor_at_clip", found.at_clip, "ratio")
    yield ctx.measurement("factor_at_step", found.at_step, "ratio")
    if found.refused:
        yield ctx.measurement("refused", True, "truth", message=found.refused)
    yield ctx.location(found.site)


def judge(measurements, policy):
    """Reproduced where the factor is in the gradients at the clip, or in those that are used."""
    seen = {each.name: each.value for each in measurements}
    refusal = next((each.case["message"] for each in measurements if each.name == "refused"), None)
    if refusal is not None:
        message = "with an enabled GradScaler the step raises: {}".format(refusal)
        return {"outcome": "reproduced", "breaks": "stops", "message": message}
    at_clip, at_step = seen.get("factor_at_clip", 1.0), seen["factor_at_step"]
    if at_clip > policy["allowed_factor"]:
        message = "gradients are clipped with the scaler's factor of {:g} in them: {:.4g} times their true norm"
        return {"outcome": "reproduced", "message": message.format(seen["scale"], at_clip)}
    if at_step > policy["allowed_factor"]:
        message = "the optimizer is handed gradients {:.4g} times as large as they are: the scaler's factor is {:g}"
        return {"outcome": "reproduced", "message": message.format(at_step, seen["scale"])}
    if at_step * seen["scale"] < policy["allowed_factor"]:
        message = "the optimizer is handed gradients divided by the scaler's factor of {:g} twice"
        return {"outcome": "reproduced", "message": message.format(seen["scale"])}
    return {
        "outcome": "not_reproduced",
        "message": "the scaler's factor of {:g} is in no gradient that is clipped or used".format(seen["scale"]),
    }


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
