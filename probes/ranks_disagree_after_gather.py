#!/usr/bin/env python3
"""Do ranks that share out the replicas gather what one process has?"""

import math

from forms import run_alone, verdict

PROBE = {
    "title": "What the ranks gather is not what one process has",
    "contracts": ["aligned_svd", "spectral_echo"],
    "categories": ["Correctness bug", "Race condition / concurrency"],
    "breaks": "wrong_answer",
    "occurs": "ordinary",
    "instrument": "ranks",
    "devices": ["cuda", "cpu"],
    "motivation": "Each rank has the gradients of its own replicas. A gather that leaves out a rank, takes one twice "
    "or loses their order gives another spectrum, and no one compares the ranks' logs.",
    "method": "Real ranks, 2 and 4, over gloo or NCCL, each with four replicas. Echoes, or matrices rebuilt from the "
    "factors, of every rank that returns some are compared with one process on all replicas.",
    "limits": "A target that gathers inside a training step cannot be called. Ranks may return nothing, but one has to "
    "return. All ranks have equally many replicas.",
    "remediation": "Gather every rank's replicas in the order of ranks, on all ranks or on one.",
    "remediation_code": "remedies/gathered_echoes.py",
    "measurements": {"collectives": "count", "answers": "truth", "largest_difference": "ratio"},
    "policy": {"tolerance": 0.001},
}

_RANKS = (2, 4)
_PER_RANK, _ROWS, _COLUMNS = 4, 24, 6


def measure(ctx):
    """Yield for every rank whether it returns a result, and how far its result is from that of one process."""
    total = 0
    for ranks in _RANKS:
        expected, answers, collectives = ctx.gathered(ranks, _PER_RANK, _ROWS, _COLUMNS)
        total += collectives
        yield ctx.measurement("collectives", collectives, "count", ranks=ranks)
        for rank, answer in enumerate(answers):
            case = {"ranks": ranks, "rank": rank}
            yield ctx.measurement("answers", answer is not None, "truth", **case)
            if answer is not None:
                yield ctx.measurement("largest_difference", _difference(answer, expected), "ratio", **case)
    if not total:
        raise ctx.NotApplicable("it calls no collective: its result is about the replicas that it is given")
    yield ctx.location(ctx.definition())


def _difference(answer, expected):
    """Return the largest difference relative to the largest expected number; infinite if the shapes differ."""
    mine, theirs = list(_leaves(answer)), list(_leaves(expected))
    if len(mine) != len(theirs) or not all(isinstance(number, float) and math.isfinite(number) for number in mine):
        return math.inf
    scale = max((abs(number) for number in theirs), default=0.0) or 1.0
    return max((abs(one - other) for one, other in zip(mine, theirs, strict=True)), default=0.0) / scale


def _leaves(nested):
    if isinstance(nested, list):
        for item in nested:
            yield from _leaves(item)
    else:
        yield nested


def judge(measurements, policy):
    """Reproduced if no rank returns a result, or one returns another result than one process."""
    wrong = [m for m in measurements if m.name == "largest_difference" and not m.value <= policy["tolerance"]]
    silent = {m.case["ranks"] for m in measurements}
    silent -= {m.case["ranks"] for m in measurements if m.name == "answers" and m.value}
    if silent:
        return verdict(True, "no rank of {} returns a result".format(min(silent)))
    if not wrong:
        return verdict(False, "every rank that returns has the result of one process")
    who = sorted({(m.case["ranks"], m.case["rank"]) for m in wrong})
    finite = [m.value for m in wrong if math.isfinite(m.value)]
    how = "by up to {:.2g} of the largest number".format(max(finite)) if finite else "in its shape"
    most, message = who[-1][0], "of {} ranks, {} return another result than one process, {}"
    return verdict(True, message.format(most, sum(ranks == most for ranks, _ in who), how))


if __name__ == "__main__":
    run_alone(__file__)
