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
        "zero_grad or step in the wrong place raises no error. zero_grad between backward and step hands the "
        "optimizer nothing, and the model never trains. Inside the loop over micro-batches, zero_grad leaves "
        "the last one alone, and most of the data is never learned from. Without zero_grad, every step "
        "repeats all earlier gradients. If a loop skips zero_grad together with a step, the gradients stay: "
        "after a NaN no later step is ever taken, and after an incomplete group the next step is too large."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. For three steps the gradients that the optimizer is handed are "
        "written, by least squares, as shares of what each micro-batch's backward added and of what was there"
        " before the first of them. Two further runs have one NaN among their losses, in the first and in the "
        "last micro-batch of a step: after the step that is left out, the others must be taken, each of its "
        "own micro-batches. Where the step counts micro-batches, it also trains for two epochs of one and a "
        "half groups: no step may hold more micro-batches than a group has."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. Gradients that are kept elsewhere "
        "than in .grad (a main_grad, buffers of a sharded optimizer) are not followed. A step that leaves "
        "zeroing to its caller reads as one that never zeroes."
    ),
    "remediation": (
        "Zero once a step: before its first micro-batch, or after optimizer.step(), also where the step is left "
        "out and where an epoch ends within a group."
    ),
    "remediation_code": "remedies/training_step.py",
    "verification": ["every micro-batch has the same share in its step, and earlier gradients have none"],
    "measurements": {
        "least_share": "ratio",
        "leftover_share": "ratio",
        "trained_steps": "count",
        "recovers": "truth",
        "handed_micro_batches": "count",
    },
    "policy": {"least_share": 0.01},
}


def measure(ctx):
    """Yield what each step is made of, and whether a NaN or an incomplete group leaves something for a later one."""
    site, shares = None, ctx.steps.shares()
    trained = [found for found in shares if any(found.micro) or found.leftover]
    yield ctx.measurement("trained_steps", len(trained), "count", steps=len(shares))
    for found in shares:
        case, least = {"step": found.step, "micro_batches": len(found.micro)}, min(found.micro, default=1.0)
        yield ctx.measurement("least_share", least, "ratio", **case)
        yield ctx.measurement("leftover_share", found.leftover, "ratio", **case)
        site = found.zeroed_at if least < PROBE["policy"]["least_share"] and found.zeroed_at else found.site
    mixed = [ctx.steps.left_over()]
    for after in ctx.steps.after_nan():
        if after.is_guarded and not (after.stops or after.steps_applied):
            yield ctx.measurement("recovers", after.recovers, "truth")
            site = site if after.recovers else after.site
            mixed.append(after.mixed)
    for found in (each for each in mixed if each is not None):
        case = {"after": found.after, "usual": found.usual}
        yield ctx.measurement("handed_micro_batches", found.handed, "count", **case)
        site = found.site if found.handed > found.usual else site
    yield ctx.location(site)


def judge(measurements, policy):
    """Reproduced where a share is next to nothing, leftovers have one, or a step is skipped and its gradients stay."""
    for each in measurements:
        if each.name == "trained_steps" and not each.value:
            message = "the model never trains: backward computes gradients, and none of {} steps is handed any"
            return {"outcome": "reproduced", "message": message.format(each.case["steps"])}
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
        if each.name == "handed_micro_batches" and each.value > each.case["usual"]:
            message = "after {after} the gradients stay: the next step is handed {} micro-batches instead of {usual}"
            text = message.format(each.value, **each.case)
            return {"outcome": "reproduced", "occurs": "rare", "message": text}
    steps = sum(each.name == "least_share" for each in measurements)
    message = "{} steps are made of all their micro-batches and of nothing else"
    return {"outcome": "not_reproduced", "message": message.format(steps)}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
