#!/usr/bin/env python3
"""Is the sum over many micro-batches as exact as one of them?"""

import math

PROBE = {
    "id": "accumulates_in_low_precision",
    "version": 1,
    "title": "Gradients are accumulated in 16 bits",
    "contracts": ["train_step"],
    "categories": ["Numerical stability", "Correctness bug"],
    "agent": "PT",
    "breaks": "wrong_step",
    "occurs": "rare",
    "lifecycle": "stable",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": (
        "bfloat16 keeps 8 bits: a micro-batch's gradient that is a 256th of the sum so far is rounded away "
        "altogether, and one of a 64th to a few values. The more micro-batches a step has, the less the later"
        " ones count."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. A step of N equal micro-batches is compared with a step of one, "
        "which is the same gradient up to a factor of N, for N of 4, 16, 64 and 256; the model is float32, so"
        " that only what the step does with the gradients can be off."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. A model that is handed over in 16 "
        "bits accumulates so in torch itself and is not asked about. Equal micro-batches round alike: others "
        "lose less."
    ),
    "remediation": (
        "Keep the running sum in float32 (a float32 model under autocast does), and round once, when the "
        "optimizer is handed it."
    ),
    "remediation_code": """import torch
from torch.nn import functional


def train_step(model, optimizer, batches):
    batches = list(batches)
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    for inputs, targets in batches:
        optimizer.zero_grad()
        (functional.cross_entropy(model(inputs), targets) / len(batches)).backward()
        for parameter, total in zip(parameters, sums, strict=True):
            if parameter.grad is not None:
                total += parameter.grad
    for parameter, total in zip(parameters, sums, strict=True):
        parameter.grad = total.to(parameter.dtype)
    optimizer.step()
""",
    "verification": ["the gradient of 256 equal micro-batches is that of one to 1 %"],
    "measurements": {"relative_error": "ratio"},
    "policy": {"allowed_error": 0.01},
}


_COUNTS = (4, 16, 64, 256)


def measure(ctx):
    """Yield the error of N equal micro-batches."""
    errors, site = ctx.steps.copies_error(_COUNTS)
    for count, error in errors.items():
        yield ctx.measurement("relative_error", error, "ratio", micro_batches=count)
    yield ctx.location(site)


def judge(measurements, policy):
    """Reproduced where the error is above what is allowed; the law is its power of N."""
    errors = {each.case["micro_batches"]: each.value for each in measurements}
    count, error = max(errors.items())
    if max(errors.values()) <= policy["allowed_error"]:
        message = "a step of {} equal micro-batches has the gradient of one, off by {:.1g}"
        return {"outcome": "not_reproduced", "message": message.format(count, error)}
    positive = [(n, each) for n, each in sorted(errors.items()) if each > 0]
    (first, low), (last, high) = positive[0], positive[-1]
    power = math.log(high / low) / math.log(last / first) if last > first else 0.0
    message = "the gradient of {} equal micro-batches is off by {:.2g} %, that of {} by {:.2g} %"
    text = message.format(count, 100 * error, first, 100 * low)
    occurs = "common" if errors.get(64, error) > 0.1 else "rare"
    law = "error about N^{:.1f}".format(power)
    return {"outcome": "reproduced", "occurs": occurs, "message": text, "law": law}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
