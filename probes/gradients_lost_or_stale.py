#!/usr/bin/env python3
"""Is a step made of all its micro-batches, and of nothing from before them?"""

PROBE = {
    "id": "gradients_lost_or_stale",
    "version": 1,
    "title": "Steps lose gradients of their micro-batches, or keep those of earlier ones",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "agent": "PT",
    "breaks": "wrong_step",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": (
        "zero_grad in the wrong place has no error. Inside the loop over micro-batches it leaves the last one"
        " alone, and most of the data is never learned from; left out, every step repeats all earlier "
        "gradients; skipped with a step that was left out for a NaN, it keeps the NaN and no later step is "
        "ever taken."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. For three steps the gradients that the optimizer is handed are "
        "written, by least squares, as shares of what each micro-batch's backward added and of what was there"
        " before the first of them. A further run has one NaN among its losses: after the step that is left "
        "out, the others must be taken."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. Gradients that are kept elsewhere "
        "than in .grad (a main_grad, buffers of a sharded optimizer) are not followed. A step that leaves "
        "zeroing to its caller reads as one that never zeroes."
    ),
    "remediation": (
        "Zero once a step: before its first micro-batch, or after optimizer.step(), also where the step is left out."
    ),
    "remediation_code": "remedies/training_step.py",
    "verification": ["every micro-batch has the same share in its step, and earlier gradients have none"],
    "measurements": {"least_share": "ratio", "leftover_share": "ratio", "recovers": "truth"},
    "policy": {"least_share": 0.01},
}


def measure(ctx):
    """Yield the smallest share of a micro-batch and that of leftovers for every step, and whether a NaN is got over."""
    site = None
    for found in ctx.steps.shares():
        case, least = {"step": found.step, "micro_batches": len(found.micro)}, min(found.micro, default=1.0)
        yield ctx.measurement("least_share", least, "ratio", **case)
        yield ctx.measurement("leftover_share", found.leftover, "ratio", **case)
        site = found.zeroed_at if least < PROBE["policy"]["least_share"] and found.zeroed_at else found.site
    after = ctx.steps.after_nan()
    if after.is_guarded and not (after.stops or after.steps_applied):
        yield ctx.measurement("recovers", after.recovers, "truth")
        site = site if after.recovers else after.site
    yield ctx.location(site)


def judge(measurements, policy):
    """Reproduced where a share is next to nothing, leftovers have one, or no step is taken after a NaN."""
    for each in measurements:
        if each.name == "least_share" and each.value < policy["least_share"]:
            message = "a micro-batch has {:.2g} of the share of another in its step: its gradient is lost ({} a step)"
            return {"outcome": "reproduced", "message": message.format(each.value, each.case["micro_batches"])}
        if each.name == "leftover_share" and each.value > policy["least_share"]:
            message = "step {} is handed {:.2g} times the gradients of the step before it, "
            message += "beside its own" if each.case["micro_batches"] else "and no others: no backward is between them"
            return {"outcome": "reproduced", "message": message.format(each.case["step"] + 1, each.value)}
        if each.name == "recovers" and not each.value:
            message = "after one NaN the step is left out and its gradients stay: no later step is taken"
            return {"outcome": "reproduced", "occurs": "rare", "message": message}
    steps = sum(each.name == "least_share" for each in measurements)
    message = "{} steps are made of all their micro-batches and of nothing else"
    return {"outcome": "not_reproduced", "message": message.format(steps)}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
