#!/usr/bin/env python3
"""Does a loop that looks for NaN keep one from reaching the parameters?"""

PROBE = {
    "id": "nonfinite_step_is_applied",
    "version": 1,
    "title": "A step of gradients that are not finite is applied",
    "contracts": ["train_step"],
    "categories": ["Correctness bug", "Numerical stability"],
    "agent": "PT",
    "breaks": "wrong_step",
    "occurs": "common",
    "lifecycle": "stable",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": (
        "One NaN that reaches an optimizer is in every parameter and every moment after that step: the run is"
        " lost, and so are the checkpoints written after it. A check that looks at the wrong thing (the loss "
        "of one rank, after the step, of other parameters) or that only counts protects nothing."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. The model answers one micro-batch of the second step with NaN: the"
        " first in one run, the last in another. A step that is handed such gradients and changes a parameter "
        "or its optimizer's state has applied them. Asked of steps that look for what is not finite anywhere in "
        "the code that they run, or that have a GradScaler."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. A step that looks for nothing is not "
        "judged: not to look is a choice. On several ranks, whether all of them skip is not asked."
    ),
    "remediation": (
        "Decide from the gradients themselves, after the last backward and before the step, by a norm that "
        "all ranks share; leave the step out and zero, or stop."
    ),
    "remediation_code": "remedies/training_step.py",
    "verification": ["one NaN among the losses changes no parameter and no state of the optimizer"],
    "measurements": {"steps_applied": "count", "nan_parameters": "count", "parameters": "count", "stops": "truth"},
    "policy": {},
}


def measure(ctx):
    """Yield how many steps were made of NaN, and how many parameters became NaN."""
    found = max(ctx.steps.after_nan(), key=lambda each: (each.is_guarded, each.steps_applied, each.nan_parameters))
    if not found.is_guarded:
        text = "it looks for no NaN: after one, {} of {} parameters are NaN"
        raise ctx.NotApplicable(text.format(found.nan_parameters, found.parameters))
    yield ctx.measurement("steps_applied", found.steps_applied, "count")
    yield ctx.measurement("nan_parameters", found.nan_parameters, "count")
    yield ctx.measurement("parameters", found.parameters, "count")
    yield ctx.measurement("stops", found.stops, "truth")
    yield ctx.location(found.site)


def judge(measurements, policy):
    """Reproduced where a step of NaN was applied."""
    seen = {each.name: each.value for each in measurements}
    if seen["steps_applied"] or seen["nan_parameters"]:
        message = "one NaN among the losses: the step is applied all the same, and {} of {} parameters are NaN"
        text = message.format(seen["nan_parameters"], seen["parameters"])
        return {"outcome": "reproduced", "message": text}
    how = "it stops" if seen["stops"] else "the step is left out"
    return {"outcome": "not_reproduced", "message": "one NaN among the losses: {}, and no parameter moves".format(how)}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
