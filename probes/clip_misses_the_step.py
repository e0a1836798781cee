#!/usr/bin/env python3
"""Do the gradients that the optimizer is handed keep to the limit, and to their direction?"""

PROBE = {
    "id": "clip_misses_the_step",
    "version": 1,
    "title": "Clipping misses the gradients that the step uses, or its limit",
    "contracts": ["train_step"],
    "categories": ["Correctness bug"],
    "agent": "PT",
    "breaks": "wrong_step",
    "occurs": "common",
    "lifecycle": "stable",
    "instrument": "steps",
    "devices": ["cpu"],
    "motivation": (
        "Gradients that are clipped after the step, before backward, on a copy, or of other parameters are "
        "handed over as they are, and nobody notices until a spike ruins a run that was protected by name "
        "only. A sum that is clipped after every micro-batch keeps to the limit and loses its direction: the "
        "first micro-batches are made small again and again. Gradients that are divided after the clip arrive "
        "far below the limit: the number of micro-batches or tokens changes the size of every clipped step."
    ),
    "method": (
        "A small model of ours (embedding, tied output layer, a trained, a frozen and an unused parameter) is"
        " trained by the step for some batches; torch's hooks of optimizers and Python's profiler see what "
        "every backward, clip and step does. The limit is a tenth of the gradients' norm where the step reads"
        " one, else the gradients are made larger than the limit that it calls torch with. At every step the "
        "norm (for limits by value, the largest element) is compared with the limit, and the direction with "
        "what the backwards added, against the same without clipping. A norm under half of the limit, and of "
        "the norm without clipping, is reported too."
    ),
    "limits": (
        "The model is small and runs on the host in one process: what sharding, several ranks, a compiled "
        "step or an optimizer that is none of torch's does is not seen. A limit that the code has for itself "
        "and does not apply by a function of torch's is not known."
    ),
    "remediation": (
        "Clip once, after the last backward of a step and directly before optimizer.step(), all parameters "
        "that the optimizer holds, after unscaling."
    ),
    "remediation_code": "remedies/training_step.py",
    "verification": [
        "no step is handed gradients above the limit or far below it, and clipping keeps their direction",
    ],
    "measurements": {
        "limit": "norm",
        "reached": "norm",
        "unclipped": "norm",
        "cosine": "ratio",
        "usual_cosine": "ratio",
        "clip_calls": "count",
    },
    "policy": {"allowed_excess": 0.01, "least_cosine": 0.99, "least_of_limit": 0.5},
}


def measure(ctx):
    """Yield for every step the limit, what reached the optimizer, and the direction."""
    steps = ctx.steps.limited()
    for found in steps:
        case = {"step": found.step}
        yield ctx.measurement("limit", found.limit, "norm", **case)
        yield ctx.measurement("reached", found.reached, "norm", **case)
        yield ctx.measurement("unclipped", found.unlimited, "norm", **case)
        yield ctx.measurement("cosine", found.cosine, "ratio", **case)
        yield ctx.measurement("usual_cosine", found.usual_cosine, "ratio", **case)
        yield ctx.measurement("clip_calls", found.clip_count, "count", **case)
    yield ctx.location(steps[0].site)


def judge(measurements, policy):
    """Reproduced where a step is handed more or far less than the limit, or another direction than without clipping."""
    rows = {}
    for each in measurements:
        rows.setdefault(each.case["step"], {})[each.name] = each.value
    for row in rows.values():
        if row["reached"] > row["limit"] * (1 + policy["allowed_excess"]) and row["unclipped"] > row["limit"]:
            times = row["reached"] / row["limit"]
            message = "the step is handed gradients of {:.3g}, {:.3g} times the limit of {:.3g}"
            return {"outcome": "reproduced", "message": message.format(row["reached"], times, row["limit"])}
        expected = min(row["limit"], row["unclipped"])
        if 0 < row["reached"] < policy["least_of_limit"] * expected:
            message = (
                "the step is handed gradients of {:.3g}, {:.3g} times the {:.3g} that the limit of {:.3g} leaves: "
            )
            message += "the gradients are made smaller after the clip"
            text = message.format(row["reached"], row["reached"] / expected, expected, row["limit"])
            return {"outcome": "reproduced", "message": text}
        if row["usual_cosine"] > 0.999 and row["cosine"] < policy["least_cosine"]:
            message = "the step keeps to the limit and loses its direction: cosine {:.3f} with what its backwards added"
            message += ", {:.3f} where nothing is clipped; {} clips a step"
            text = message.format(row["cosine"], row["usual_cosine"], row["clip_calls"])
            return {"outcome": "reproduced", "message": text}
    message = "{} steps keep to the limit of {:.3g} and to their direction: {:.3g} of {:.3g}"
    text = message.format(len(rows), row["limit"], row["reached"], row["unclipped"])
    return {"outcome": "not_reproduced", "message": text}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
