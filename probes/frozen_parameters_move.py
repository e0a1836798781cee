#!/usr/bin/env python3
"""Do frozen parameters stay the same, also under weight decay and momentum?"""

from forms import run_alone, verdict

PROBE = {
    "title": "Frozen parameters move",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "breaks": "wrong_step",
    "occurs": "common",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": "An optimizer moves every parameter whose .grad is a tensor, even of zeros: weight decay shrinks it "
    "and momentum carries it on. A layer that is frozen by a zeroed gradient drifts away.",
    "method": "auditkit trains a small model with your step and records every backward, clip and optimizer step. For "
    "three steps of SGD with momentum and weight decay, frozen parameters, and those whose gradient the step replaces "
    "by zeros, must stay the same bit by bit.",
    "limits": "The small model runs on the host in one process: sharding, compiled steps and optimizers outside torch "
    "are not seen. A layer that the step freezes by a name that the small model lacks is not seen.",
    "remediation": "Freeze with requires_grad_(False) before the first step and set .grad to None, or leave such "
    "parameters out of the optimizer.",
    "remediation_code": "remedies/train_frozen.py",
    "measurements": {"moved_parameters": "count", "largest_change": "magnitude"},
}


def measure(ctx):
    """Yield how many frozen parameters moved, and by how much at most."""
    moved = ctx.steps.moved()
    yield ctx.measurement("moved_parameters", len(moved), "count", parameters=", ".join(each.name for each in moved))
    for each in moved:
        yield ctx.measurement("largest_change", each.largest_change, "magnitude", parameter=each.name)
    yield ctx.location(moved[0].site if moved else None)


def judge(measurements, policy):
    """Reproduced if any moved."""
    count = next(each for each in measurements if each.name == "moved_parameters")
    if not count.value:
        return verdict(False, "three steps of momentum and weight decay move no frozen parameter")
    largest = max(each.value for each in measurements if each.name == "largest_change")
    message = "{parameters} has no gradient of its own and moves by up to {:.2g} in a step"
    return verdict(True, message.format(largest, **count.case))


if __name__ == "__main__":
    run_alone(__file__)
