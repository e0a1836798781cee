#!/usr/bin/env python3
"""Does a step of several micro-batches use the gradient of one batch that holds them all?"""

PROBE = {
    "id": "accumulation_differs_from_full_batch",
    "version": 1,
    "title": "Accumulated micro-batches do not make the gradient of the full batch",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "agent": "PT",
    "breaks": "wrong_step",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": (
        "Accumulation is there to make a large batch out of small ones. Losses that are added and not divided"
        " make the gradient N times as large, ones that are divided twice N times as small; a mean of means "
        "gives the tokens of a short micro-batch more weight than those of a long one. Training goes on "
        "either way, at another learning rate than the one that was set, and clipping hides the size."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. The gradient of N micro-batches is compared with that of one "
        "batch of all their samples: by norm and by cosine, for N of 2, 4 and 8, with equally many targets in"
        " each, and, where targets are tokens and the code that ran pads or ignores some, with 2 to 20. The "
        "reference is computed in float64 where the step's loss is the mean of cross entropy or squares; "
        "otherwise it is what the step itself makes of one batch. What clipping and a scaler do to the gradient "
        "is taken out."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. Where the number of micro-batches is "
        "fixed in the code and the loss is not one of the two, there is nothing to compare with. "
        "Micro-batches of different numbers of samples are not asked about: the last batch of most loaders is"
        " one."
    ),
    "remediation": (
        "Divide the sum of the losses of all micro-batches by the number of all their targets, counted before"
        " the first backward; over ranks, by the number over all ranks."
    ),
    "remediation_code": "remedies/training_step.py",
    "verification": [
        "the gradient of N micro-batches has the norm and the direction of that of one batch, by sample and by token"
    ],
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
            yield ctx.measurement("norm_ratio", found.ratio, "ratio", **case)
            yield ctx.measurement("cosine", found.cosine, "ratio", **case)
            yield ctx.measurement("true_norm", found.true_norm, "norm", **case)
            site = found.site
    yield ctx.location(site)


def judge(measurements, policy):
    """Reproduced where a norm or a direction is off; of an even case in any run, else where lengths differ."""
    cosines = {_key(m): m.value for m in measurements if m.name == "cosine"}
    rows = [(_key(m), m.value, cosines[_key(m)]) for m in measurements if m.name == "norm_ratio"]
    wrong = [row for row in rows if abs(row[1] - 1) > policy["allowed_ratio"] or row[2] < policy["least_cosine"]]
    even = {key[0]: ratio for key, ratio, _ in rows if key[1] == "even"}
    law = _law(even)
    if not wrong:
        message = "the gradient of up to {} micro-batches is that of one batch: {:.3g} times its norm, cosine {:.4f}"
        key, ratio, cosine = rows[-1]
        return {"outcome": "not_reproduced", "message": message.format(key[0], ratio, cosine), "law": law}
    (count, targets), ratio, cosine = max(wrong, key=lambda row: (row[0][1] == "even", row[0][0]))
    text = (
        "{} micro-batches hand the optimizer {:.3g} times the norm of one batch of the same samples, at cosine {:.3f}"
    )
    message = text.format(count, ratio, cosine)
    if targets == "uneven":
        message += ", where they have 2 to 20 targets each; with equally many it is right"
        return {"outcome": "reproduced", "occurs": "common", "message": message, "law": law}
    return {"outcome": "reproduced", "message": message, "law": law}


def _key(row):
    return row.case["micro_batches"], row.case["targets"]


def _law(even):
    """The ratio by the number of micro-batches."""
    for text, law in (("1", lambda n: 1.0), ("N", float), ("1/N", lambda n: 1.0 / n)):
        if all(abs(ratio / law(count) - 1) < 0.02 for count, ratio in even.items()):
            return "norm ratio {}".format(text)
    return ""


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
