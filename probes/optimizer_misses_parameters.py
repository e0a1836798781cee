#!/usr/bin/env python3
"""Does every parameter that gets a gradient have an optimizer, once?"""

from forms import run_alone, verdict

PROBE = {
    "title": "Parameters that train have no optimizer, or a stale one",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "breaks": "wrong_step",
    "occurs": "ordinary",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": "An optimizer made before the model was wrapped or given new layers, or from overlapping groups, "
    "trains less than the model, or one parameter twice. The loss goes down all the same.",
    "method": "auditkit trains a small model with your step and records every backward, clip and optimizer step. After "
    "two steps the parameters with a gradient are compared with those of the optimizers, and these with the parameters "
    "of the models that ran.",
    "limits": "The small model runs on the host in one process: sharding, compiled steps and optimizers outside torch "
    "are not seen. An optimizer that is made elsewhere is not seen: the step gets one that holds all parameters.",
    "remediation": "Make the optimizer after the model has its last form, and assert that every trained parameter is "
    "in exactly one group.",
    "remediation_code": "remedies/optimizer_of_all.py",
    "measurements": {"missing": "count", "stale": "count", "held_twice": "count"},
}


def measure(ctx):
    """Yield how many parameters are missing, stale and held twice, with their names."""
    found = ctx.steps.owned()
    for name, parameters in (("missing", found.missing), ("stale", found.stale), ("held_twice", found.twice)):
        yield ctx.measurement(name, len(parameters), "count", parameters=", ".join(parameters))
    yield ctx.location(found.site)


_WORDS = {
    "missing": "get gradients and are in no optimizer",
    "stale": "are in the optimizer and in no model that is trained",
    "held_twice": "are held by an optimizer twice",
}


def judge(measurements, policy):
    """Reproduced if there is any; parameters that are only held twice are rarer."""
    wrong = [each for each in measurements if each.value]
    if not wrong:
        return verdict(False, "every parameter that gets a gradient is in one optimizer")
    texts = ["{} parameters {}: {}".format(m.value, _WORDS[m.name], m.case["parameters"]) for m in wrong]
    occurs = "common" if {each.name for each in wrong} == {"held_twice"} else "ordinary"
    return verdict(True, "; ".join(texts), occurs=occurs)


if __name__ == "__main__":
    run_alone(__file__)
