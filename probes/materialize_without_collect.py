#!/usr/bin/env python3
"""Is there a function that finishes a collection, and none that collects?"""

PROBE = {
    "id": "materialize_without_collect",
    "version": 1,
    "title": "A collection can be finished, and nothing public collects it",
    "scope": "source",
    "contracts": [],
    "categories": ["API design / contract violation", "Dead code / unwired functionality"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "instrument": "syntax",
    "motivation": "An asynchronous collector is a pair: one function enqueues the work and returns what is pending, "
    "the other reads it back. Where only the second is public, every caller writes the first by hand, with the keys "
    "that the second happens to ask for; the copies drift, and their numerics are nobody's to fix.",
    "method": "Public functions called materialize_, finish_, finalize_ or wait_ that read tensors back from a "
    "mapping whose text keys they demand, or from a record of the checkout. Looked for is a function that can be "
    "called from elsewhere and returns such a mapping or record, directly or through another; and, where there is "
    "none, code that writes the mapping out by hand. A dataclass for results (Stats, Metrics, Health, Report) that "
    "nothing makes counts as well.",
    "limits": "Keys that are put together at run time are not seen, nor is a producer outside the checkout. "
    "Functions that also train (backward, step) collect by hand and do not count as producers, nor do functions "
    "inside functions. A finisher whose input has neither text keys nor a class of the checkout is not judged.",
    "remediation": "Add the function that collects, beside the one that finishes, and call it where the collection "
    "is written out now.",
    "remediation_code": """import torch


def tensor_norms(grads):
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads])


def collect_norms_async(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    norms = tensor_norms(grads) if grads else torch.zeros(1, dtype=torch.float64)
    return {"_pair": torch.stack([torch.linalg.vector_norm(norms), norms.max()])}


def materialize_norms(pending):
    total, largest = pending["_pair"].tolist()
    return {"grad_norm": total, "max_norm": largest}


def gradient_norms(parameters):
    return materialize_norms(collect_norms_async(parameters))
""",
    "verification": ["a public function returns what the finishing one asks for, and its callers use it"],
    "measurements": {
        "producer_count": "count",
        "written_by_hand": "line",
        "instance_count": "count",
        "finishers_examined": "count",
        "files_examined": "count",
    },
}

_MOST_IN_MESSAGE = 3


def measure(ctx):
    """Yield for every finishing function how many others produce its input, and where that is written by hand."""
    finishers = 0
    for found in ctx.finishers():
        finishers += 1
        if found.producers:
            continue
        subject = found.function.call
        yield ctx.measurement(subject, "producer_count", 0, "count", input=found.input_in_words)
        for mapping in found.by_hand:
            case = {"file": mapping.file, "function": mapping.function}
            yield ctx.measurement(subject, "written_by_hand", mapping.line, "line", **case)
        yield ctx.location(subject, found.module, found.function.node.lineno, found.function.qualified_name)
    for module, item in ctx.results_nobody_makes():
        yield ctx.measurement(item.subject, "instance_count", 0, "count", result=item.qualified_name)
        yield ctx.location(item.subject, module, item.line, item.qualified_name)
    yield from ctx.examined(finishers=finishers)


def judge(measurements, policy):
    """Reproduced where nothing that can be called produces the input, or makes the result."""
    counts = {m.name: m.value for m in measurements}
    if "instance_count" in counts:
        return {
            "outcome": "reproduced",
            "message": "nothing in the checkout makes an instance of {}".format(
                next(m.case["result"] for m in measurements if m.name == "instance_count")
            ),
            "occurs": "rare",
        }
    if "producer_count" not in counts:
        message = "each of {:,} finishing functions in {:,} files has one that collects".format(
            counts["finishers_examined"], counts["files_examined"]
        )
        return {"outcome": "not_reproduced", "message": message}
    wanted = next(m.case["input"] for m in measurements if m.name == "producer_count")
    hand = [m for m in measurements if m.name == "written_by_hand"]
    message = "no public function returns what it asks for ({})".format(wanted)
    if hand:
        listed = ["{}:{} in {}".format(m.case["file"], m.value, m.case["function"] or "the module") for m in hand]
        more = " and {} more".format(len(listed) - _MOST_IN_MESSAGE) if len(listed) > _MOST_IN_MESSAGE else ""
        message += "; written by hand at {}{}".format(", ".join(listed[:_MOST_IN_MESSAGE]), more)
    return {"outcome": "reproduced", "message": message}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
