#!/usr/bin/env python3
"""Does a step use the gradients of all its micro-batches, and no earlier ones?"""

from forms import run_alone, verdict

PROBE = {
    "title": "Steps lose gradients of their micro-batches, or keep those of earlier ones",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "breaks": "wrong_step",
    "occurs": "ordinary",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": "A zero_grad or step in the wrong place raises no error: the optimizer gets nothing, only the last "
    "micro-batch, or all earlier gradients again. Gradients of a skipped step stay and join the next one.",
    "method": "auditkit trains a small model with your step and records every backward, clip and optimizer step. By "
    "least squares, each step's gradients are written as shares of its micro-batches and of what was there before. Two "
    "runs have one NaN; where the step counts micro-batches, two epochs end within a group.",
    "limits": "The small model runs on the host in one process: sharding, compiled steps and optimizers outside torch "
    "are not seen. Gradients kept outside .grad are not followed. A step that leaves zeroing to its caller reads as "
    "one that never zeroes, and is P4 if a caller in the checkout zeroes.",
    "remediation": "Zero once a step, before its first micro-batch or after optimizer.step(), also where the step is "
    "skipped or an epoch ends.",
    "remediation_code": "remedies/training_step.py",
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
    """Yield the gradients in each step, and whether a NaN or an incomplete group leaves some for a later one."""
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
    """Reproduced if a share is almost zero, old gradients have a share, or a skipped step keeps its gradients."""
    for each in measurements:
        if each.name == "trained_steps" and not each.value:
            message = "the model never trains: backward computes gradients, but none of {} steps gets any"
            return verdict(True, message.format(each.case["steps"]))
        if each.name == "least_share" and each.value < policy["least_share"]:
            message = "a micro-batch has {:.2g} of the share of another in its step: its gradient is lost ({} per step)"
            return verdict(True, message.format(each.value, each.case["micro_batches"]))
        if each.name == "leftover_share" and each.value > policy["least_share"]:
            message = "step {} gets {:.2g} times the gradients of the step before it, "
            message += (
                "in addition to its own" if each.case["micro_batches"] else "and no others: no backward is between"
            )
            return verdict(True, message.format(each.case["step"] + 1, each.value), occurs={"uncleared": "ordinary"})
        if each.name == "recovers" and not each.value:
            message = "after one NaN the step is skipped and its gradients stay: every later step is skipped, too"
            return verdict(True, message, occurs="rare")
        if each.name == "handed_micro_batches" and each.value > each.case["usual"]:
            message = "after {after} the gradients stay: the next step gets {} micro-batches instead of {usual}"
            text = message.format(each.value, **each.case)
            return verdict(True, text, occurs="rare")
    steps = sum(each.name == "least_share" for each in measurements)
    message = "{} steps use all their micro-batches and nothing else"
    return verdict(False, message.format(steps))


if __name__ == "__main__":
    run_alone(__file__)
