#!/usr/bin/env python3
"""Does the host wait for the device at every micro-batch?"""

from forms import run_alone, verdict

PROBE = {
    "title": "The host waits for the device at every micro-batch",
    "contracts": ["train_step"],
    "categories": ["Performance bottleneck"],
    "breaks": "cost",
    "occurs": "common",
    "instrument": "syncs",
    "devices": ["cpu"],
    "motivation": "A loss that is read with .item() after every micro-batch makes the host and the device wait for "
    "each other.",
    "method": "Your step runs on a small model for 2, 4 and 8 micro-batches, and every read of a tensor's value by the "
    "host is counted with its line. A step without accumulation may read once.",
    "limits": "Lines that check for NaN and the optimizer step have to wait and are not counted, nor is what happens "
    "at an interval.",
    "remediation": "Add losses up on the device (total += loss.detach()) and read them where they are logged.",
    "remediation_code": "remedies/training_step.py",
    "measurements": {"read_count": "count"},
    "policy": {"reads_per_batch": 1},
}


_COUNTS = (2, 4, 8)


def measure(ctx):
    """Yield the reads for every number of micro-batches, with the line that most of them are at."""
    steps, lines = ctx.steps, []
    for count in _COUNTS:
        lines = steps.syncs(count)
        case = {"micro_batches": count, "accumulates": bool(steps.feed.accumulates)}
        yield ctx.measurement("read_count", len(lines), "count", **case)
    yield ctx.location(ctx.most_common(lines))


def judge(measurements, policy):
    """Reproduced if the host reads at every further micro-batch, or more than once per step."""
    counts = {each.case["micro_batches"]: each.value for each in measurements}
    low, high = min(counts), max(counts)
    slope = (counts[high] - counts[low]) / (high - low)
    constant = counts[low] - slope * low
    law = "{:g}N{:+g} reads".format(slope, constant) if slope else "{:g} reads".format(constant)
    accumulates = measurements[0].case["accumulates"]
    allowed = 0 if accumulates else policy["reads_per_batch"]
    if slope <= allowed:
        message = "{} reads for {} batches, {} for {}".format(counts[low], low, counts[high], high)
        return verdict(False, message, law=law)
    message = "the host reads the device {:g} times for every {}: {} times for {}"
    text = message.format(slope, "micro-batch" if accumulates else "step", counts[high], high)
    return verdict(True, text, occurs="common" if accumulates else "rare", law=law)


if __name__ == "__main__":
    run_alone(__file__)
