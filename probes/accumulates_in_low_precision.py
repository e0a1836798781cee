#!/usr/bin/env python3
"""Is the sum over many micro-batches as exact as one of them?"""

import math

from forms import run_alone, verdict

PROBE = {
    "title": "Gradients are accumulated in 16 bits",
    "contracts": ["train_step"],
    "categories": ["Numerical stability", "Correctness bug"],
    "breaks": "wrong_step",
    "occurs": "rare",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": "bfloat16 keeps 8 bits. A micro-batch's gradient that is a 256th of the running sum is rounded away, "
    "so later micro-batches count less than earlier ones.",
    "method": "auditkit trains a small model with your step and records every backward, clip and optimizer step. A "
    "step of N equal micro-batches must have the gradient of one, up to the factor N, for N of 4, 16, 64 and 256.",
    "limits": "The small model runs on the host in one process: sharding, compiled steps and optimizers outside torch "
    "are not seen. A model that is already 16-bit accumulates in 16 bits in torch itself and is not judged.",
    "remediation": "Keep the running sum in float32, as a float32 model under autocast does, and round once before the "
    "optimizer step.",
    "remediation_code": "remedies/float32_accumulation.py",
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
    """Reproduced if the error is above the allowed one; the law is its power of N."""
    errors = {each.case["micro_batches"]: each.value for each in measurements}
    count, error = max(errors.items())
    if max(errors.values()) <= policy["allowed_error"]:
        message = "a step of {} equal micro-batches has the gradient of one, off by {:.1g}"
        return verdict(False, message.format(count, error))
    positive = [(n, each) for n, each in sorted(errors.items()) if each > 0]
    (first, low), (last, high) = positive[0], positive[-1]
    power = math.log(high / low) / math.log(last / first) if last > first else 0.0
    message = "the gradient of {} equal micro-batches is off by {:.2g} %, that of {} by {:.2g} %"
    text = message.format(count, 100 * error, first, 100 * low)
    occurs = "common" if errors.get(64, error) > 0.1 else "rare"
    return verdict(True, text, occurs=occurs, law="error about N^{:.1f}".format(power))


if __name__ == "__main__":
    run_alone(__file__)
