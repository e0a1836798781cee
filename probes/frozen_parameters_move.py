#!/usr/bin/env python3
"""Do frozen parameters stay as they are, under weight decay and momentum too?"""

PROBE = {
    "id": "frozen_parameters_move",
    "version": 1,
    "title": "Frozen parameters move",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "agent": "PT",
    "breaks": "wrong_step",
    "occurs": "common",
    "lifecycle": "stable",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": (
        "An optimizer moves every parameter whose .grad is a tensor, also one of zeros: weight decay shrinks "
        "it and momentum carries it on. So a layer that is frozen by zeroing or masking its gradient, or that"
        " is set to train again by a loop over all parameters, drifts away from its pretrained values."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. For three steps of SGD with momentum and weight decay (or of the"
        " step's own optimizer) the parameter that was frozen, and any whose gradient the step replaces by "
        "zeros, are compared with what they were, bit by bit."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. A layer that the step freezes by a "
        "name that our model does not have is not seen."
    ),
    "remediation": (
        "Freeze by requires_grad_(False) before the first step and set .grad to None, or leave such "
        "parameters out of the optimizer."
    ),
    "remediation_code": """from torch.nn import functional


def train_frozen(model, optimizer, batches, frozen=("embedding",)):
    for name, parameter in model.named_parameters():
        if name.startswith(frozen):
            parameter.requires_grad_(False)
            parameter.grad = None  # a tensor of zeros would still be decayed
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
""",
    "verification": ["no parameter without a gradient of its own changes by a bit"],
    "measurements": {"moved_parameters": "count", "largest_change": "magnitude"},
    "policy": {},
}


def measure(ctx):
    """Yield how many parameters moved that should not, and by how much at most."""
    moved = ctx.steps.moved()
    yield ctx.measurement("moved_parameters", len(moved), "count", parameters=", ".join(each.name for each in moved))
    for each in moved:
        yield ctx.measurement("largest_change", each.largest_change, "magnitude", parameter=each.name)
    yield ctx.location(moved[0].site if moved else None)


def judge(measurements, policy):
    """Reproduced where any moved."""
    count = next(each for each in measurements if each.name == "moved_parameters")
    if not count.value:
        return {
            "outcome": "not_reproduced",
            "message": "three steps of momentum and weight decay move no frozen parameter",
        }
    largest = max(each.value for each in measurements if each.name == "largest_change")
    message = "{} has no gradient of its own and moves by up to {:.2g} in a step".format(
        count.case["parameters"], largest
    )
    return {"outcome": "reproduced", "message": message}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
