#!/usr/bin/env python3
"""Do the gradients that reach the optimizer keep the limit and their direction?"""

from forms import rows, run_alone, verdict

PROBE = {
    "title": "Clipping misses the gradients that the step uses, or its limit",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "breaks": "wrong_step",
    "occurs": "common",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": "Gradients that are clipped after the step, before backward, or on a copy reach the optimizer "
    "unclipped. Clipping every micro-batch loses the direction; dividing after the clip makes the step too small.",
    "method": "auditkit trains a small model with your step and records every backward, clip and optimizer step. With "
    "a limit of a tenth of the norm, the norm at every step is compared with the limit, and the direction with that of "
    "the unclipped step. Less than half the limit is reported too.",
    "limits": "The small model runs on the host in one process: sharding, compiled steps and optimizers outside torch "
    "are not seen. A limit that the code applies without torch's clipping functions is not known.",
    "remediation": "Clip once, after the last backward and unscaling, directly before optimizer.step(), all parameters "
    "of the optimizer.",
    "remediation_code": "remedies/training_step.py",
    "measurements": {
        "limit": "norm",
        "reached": "norm",
        "unclipped": "norm",
        "cosine": "ratio",
        "usual_cosine": "ratio",
        "clip_calls": "count",
    },
    "policy": {"allowed_excess": 0.01, "least_cosine": 0.99, "least_of_limit": 0.5},
}


def measure(ctx):
    """Yield for every step the limit, what reached the optimizer, and the direction."""
    steps = ctx.steps.limited()
    for found in steps:
        norms = {"limit": found.limit, "reached": found.reached, "unclipped": found.unlimited}
        directions = {"cosine": found.cosine, "usual_cosine": found.usual_cosine}
        yield from rows(ctx, PROBE, {"step": found.step}, **norms, **directions, clip_calls=found.clip_count)
    yield ctx.location(steps[0].site)


def judge(measurements, policy):
    """Reproduced if a step gets more or far less than the limit, or another direction than without clipping."""
    steps = {}
    for each in measurements:
        steps.setdefault(each.case["step"], {})[each.name] = each.value
    for row in steps.values():
        if row["reached"] > row["limit"] * (1 + policy["allowed_excess"]) and row["unclipped"] > row["limit"]:
            message = "the step gets gradients of norm {reached:.3g}, {:.3g} times the limit of {limit:.3g}"
            return verdict(True, message.format(row["reached"] / row["limit"], **row))
        expected = min(row["limit"], row["unclipped"])
        if 0 < row["reached"] < policy["least_of_limit"] * expected:
            message = "the step gets gradients of norm {reached:.3g}, {:.3g} times the {:.3g} that the limit of "
            message += "{limit:.3g} allows: something makes the gradients smaller after the clip"
            return verdict(True, message.format(row["reached"] / expected, expected, **row))
        if row["usual_cosine"] > 0.999 and row["cosine"] < policy["least_cosine"]:
            message = "the step keeps the limit but loses its direction: cosine {cosine:.3f} with the sum of its "
            message += "backwards, {usual_cosine:.3f} without clipping; {clip_calls} clips per step"
            return verdict(True, message.format(**row))
    message = "{} steps keep the limit of {limit:.3g} and their direction: {reached:.3g} of {unclipped:.3g}"
    return verdict(False, message.format(len(steps), **row))


if __name__ == "__main__":
    run_alone(__file__)
