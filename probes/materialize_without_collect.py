#!/usr/bin/env python3
"""Is there a function that finishes a collection, and none that collects?"""

from forms import joined, run_alone, verdict

PROBE = {
    "title": "A collection can be finished, and nothing public collects it",
    "scope": "source",
    "categories": ["API design / contract violation", "Dead code / unwired functionality"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "ordinary",
    "motivation": "An asynchronous collector is a pair: one function enqueues, the other reads. Where only the second "
    "is public, every caller writes the first by hand, and the copies drift.",
    "method": "Public functions named materialize, finish, finalize or wait that read tensors back from a mapping with "
    "text keys. Some callable function must return such a mapping.",
    "limits": "Keys made at run time and producers outside the checkout are not seen. Functions that also train do not "
    "count.",
    "remediation": "Add the function that collects beside the one that finishes, and call it where the collection is "
    "written out.",
    "remediation_code": "remedies/collect_and_materialize.py",
    "measurements": {
        "producer_count": "count",
        "written_by_hand": "line",
        "finishers_examined": "count",
        "files_examined": "count",
    },
}


def measure(ctx):
    """Yield for every finishing function without a producer where its input is written out by hand."""
    yield from ctx.check("missing_collections")


def judge(measurements, policy):
    """Reproduced if nothing that can be called produces the input."""
    counts = {m.name: m for m in measurements}
    if "producer_count" not in counts:
        message = "each of {:,} finishing functions in {:,} files has one that collects"
        return verdict(False, message.format(counts["finishers_examined"].value, counts["files_examined"].value))
    message = "no public function returns its input ({})".format(counts["producer_count"].case["input"])
    by_hand = [m for m in measurements if m.name == "written_by_hand"]
    listed = ["{}:{} in {}".format(m.case["file"], m.value, m.case["function"] or "the module") for m in by_hand]
    return verdict(True, message + ("; written by hand at " + joined(listed, 3) if listed else ""))


if __name__ == "__main__":
    run_alone(__file__)
