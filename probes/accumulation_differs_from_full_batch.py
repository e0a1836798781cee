#!/usr/bin/env python3
"""Does a step of several micro-batches use the gradient of one batch that holds them all?"""

from forms import compared_steps, ratio_law, rows, run_alone, verdict

PROBE = {
    "title": "Accumulated micro-batches do not make the gradient of the full batch",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "breaks": "wrong_step",
    "occurs": "ordinary",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": "Accumulation must give the gradient of the large batch. Losses that are not divided, or divided "
    "twice, scale it by N; a mean of means gives short micro-batches too much weight. Clipping hides the size.",
    "method": "auditkit trains a small model with your step and records every backward, clip and optimizer step. The "
    "gradient of N micro-batches is compared with that of one batch of all samples, by norm and cosine, for N of 2, 4 "
    "and 8, with equal and, where the code pads or ignores targets, with unequal numbers of targets.",
    "limits": "The small model runs on the host in one process: sharding, compiled steps and optimizers outside torch "
    "are not seen. Without a fixed loss formula the reference is your own step on one batch. Micro-batches of "
    "different sizes are not tried.",
    "remediation": "Divide each mean loss by the number of micro-batches. Where numbers of targets differ, divide "
    "the sum of all losses by the number of all targets, counted before the first backward, over all ranks.",
    "remediation_code": "remedies/training_step.py",
    "measurements": {"norm_ratio": "ratio", "cosine": "ratio", "true_norm": "norm"},
    "policy": {"allowed_ratio": 0.02, "least_cosine": 0.999},
}


_COUNTS = (2, 4, 8)


def measure(ctx):
    """Yield norm ratio and cosine for every number of micro-batches, even and uneven."""
    steps, site = ctx.steps, None
    for uneven in (False, True) if steps.weighs_targets else (False,):
        for count in _COUNTS if steps.feed.accumulates != "fixed" else (steps.feed.fixed_count,):
            found = steps.accumulated(count, uneven)
            case = {"micro_batches": found.micro_batches, "targets": "uneven" if uneven else "even"}
            values = {"norm_ratio": found.ratio, "cosine": found.cosine, "true_norm": found.true_norm}
            yield from rows(ctx, PROBE, case, **values)
            site = found.site
    yield ctx.location(site)


def judge(measurements, policy):
    """Reproduced if a norm or a direction is off; uneven micro-batches need data of different lengths."""
    found, wrong = compared_steps(measurements, policy, "micro_batches", "targets")
    law = ratio_law([(key[0], ratio) for key, ratio, _ in found if key[1] == "even"], "N")
    if not wrong:
        message = "the gradient of up to {} micro-batches is that of one batch: {:.3g} times its norm, cosine {:.4f}"
        key, ratio, cosine = found[-1]
        return verdict(False, message.format(key[0], ratio, cosine), law=law)
    (count, targets), ratio, cosine = max(wrong, key=lambda row: (row[0][1] == "even", row[0][0]))
    text = "{} micro-batches give the optimizer {:.3g} times the norm of one batch of the same samples, at cosine "
    message = (text + "{:.3f}").format(count, ratio, cosine)
    if targets == "uneven":
        message += ", where they have 2 to 20 targets each; with equally many it is right"
        return verdict(True, message, occurs="common", law=law)
    return verdict(True, message, law=law)


if __name__ == "__main__":
    run_alone(__file__)
