#!/usr/bin/env python3
"""Does every parameter that gets a gradient have an optimizer, once?"""

PROBE = {
    "id": "optimizer_misses_parameters",
    "version": 1,
    "title": "Parameters that train have no optimizer, or a stale one",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "agent": "PT",
    "breaks": "wrong_step",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": (
        "An optimizer holds the parameters that it was made with. Made before the model was wrapped, copied "
        "or given new layers, from a list that leaves out biases, or from groups that overlap, it trains less"
        " than the model, something that nobody uses, or one parameter twice. The loss goes down all the "
        "same."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. After two steps the parameters that had a gradient are compared "
        "with those that the optimizers hold, and these with the parameters of the models that answered."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. What an optimizer that is made "
        "elsewhere holds is not seen: the step is handed one that holds all parameters."
    ),
    "remediation": (
        "Make the optimizer after the model has its last form, of all parameters that require a gradient, and"
        " assert that every one of them is in exactly one group."
    ),
    "remediation_code": """import torch
from torch.nn import functional


def train(model, batches, lr=1e-3):
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices, others = [p for p in trained if p.dim() > 1], [p for p in trained if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0.0}], lr=lr)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(trained)
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
""",
    "verification": [
        "every parameter with a gradient is held by one optimizer once, and no optimizer holds another model's"
    ],
    "measurements": {"missing": "count", "stale": "count", "held_twice": "count"},
    "policy": {},
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
    """Reproduced where there is any; parameters that are only held twice are rarer."""
    wrong = [each for each in measurements if each.value]
    if not wrong:
        return {"outcome": "not_reproduced", "message": "every parameter that gets a gradient is in one optimizer"}
    texts = ["{} parameters {}: {}".format(m.value, _WORDS[m.name], m.case["parameters"]) for m in wrong]
    occurs = "common" if {each.name for each in wrong} == {"held_twice"} else "ordinary"
    return {"outcome": "reproduced", "occurs": occurs, "message": "; ".join(texts)}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
