#!/usr/bin/env python3
"""Does a loop that looks for NaN keep one from reaching the parameters?"""

from forms import rows, run_alone, verdict

PROBE = {
    "title": "A step of gradients that are not finite is applied",
    "contracts": ["train_step"],
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_step",
    "occurs": "common",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": "One NaN that reaches an optimizer is in every parameter after that step: the run and its later "
    "checkpoints are lost. A check that looks at the wrong thing protects nothing.",
    "method": "auditkit trains a small model with your step and records every backward, clip and optimizer step. The "
    "model returns NaN for one micro-batch of the second step. A step that then changes a parameter or optimizer state "
    "has applied it. Only steps that check for non-finite values, or have a GradScaler, are judged.",
    "limits": "The small model runs on the host in one process: sharding, compiled steps and optimizers outside torch "
    "are not seen. Whether all of several ranks skip is not checked.",
    "remediation": "Decide from the gradients, after the last backward, by a norm that all ranks share; skip the step "
    "and zero, or stop.",
    "remediation_code": "remedies/training_step.py",
    "measurements": {"steps_applied": "count", "nan_parameters": "count", "parameters": "count", "stops": "truth"},
}


def measure(ctx):
    """Yield how many steps had NaN gradients, and how many parameters became NaN."""
    found = max(ctx.steps.after_nan(), key=lambda each: (each.is_guarded, each.steps_applied, each.nan_parameters))
    if not found.is_guarded:
        text = "it does not check for NaN: after one, {} of {} parameters are NaN"
        raise ctx.NotApplicable(text.format(found.nan_parameters, found.parameters))
    counts = {"nan_parameters": found.nan_parameters, "parameters": found.parameters}
    yield from rows(ctx, PROBE, {}, steps_applied=found.steps_applied, **counts, stops=found.stops)
    yield ctx.location(found.site)


def judge(measurements, policy):
    """Reproduced if a step with NaN gradients was applied."""
    seen = {each.name: each.value for each in measurements}
    if seen["steps_applied"] or seen["nan_parameters"]:
        message = "one NaN among the losses: the step is applied anyway, and {} of {} parameters are NaN"
        return verdict(True, message.format(seen["nan_parameters"], seen["parameters"]))
    how = "it stops" if seen["stops"] else "the step is skipped"
    return verdict(False, "one NaN among the losses: {}, and no parameter moves".format(how))


if __name__ == "__main__":
    run_alone(__file__)
