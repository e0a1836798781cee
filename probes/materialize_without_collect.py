#!/usr/bin/env python3
"""Is there a function that finishes a collection, and none that collects?"""

from forms import run_alone

PROBE = {
    "title": "A collection can be finished, and nothing public collects it",
    "scope": "source",
    "categories": ["API design / contract violation", "Dead code / unwired functionality"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "ordinary",
    "instrument": "syntax",
    "motivation": "An asynchronous collector is a pair: one function enqueues, the other reads. Where only the second "
    "is public, every caller writes the first by hand, and the copies drift.",
    "method": "Public functions named materialize, finish, finalize or wait that read tensors back from a mapping with "
    "text keys or from a record. Some callable function must return such a mapping or record. A result dataclass that "
    "nothing makes counts too.",
    "limits": "Keys made at run time and producers outside the checkout are not seen. Functions that also train do not "
    "count.",
    "remediation": "Add the function that collects beside the one that finishes, and call it where the collection is "
    "written out.",
    "remediation_code": "remedies/collect_and_materialize.py",
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
    run_alone(__file__)
