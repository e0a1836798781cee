#!/usr/bin/env python3
"""Does the host wait for the device at every micro-batch?"""

PROBE = {
    "id": "step_waits_for_the_device",
    "version": 1,
    "title": "The host waits for the device at every micro-batch",
    "contracts": ["train_step"],
    "categories": ["Performance bottleneck"],
    "agent": "PT",
    "breaks": "cost",
    "occurs": "common",
    "lifecycle": "stable",
    "instrument": "syncs",
    "devices": ["cpu"],
    "motivation": (
        "A loss that is read by .item() after every micro-batch makes the host wait until the device has done"
        " all that it was given, and the device wait until the host has prepared the next. Kept on the device"
        " and read when it is logged, it costs nothing."
    ),
    "method": (
        "The step is run on the small model for 2, 4 and 8 micro-batches in one step, or as many steps where "
        "it does not accumulate, and every read of a tensor's value by the host is counted with its line. A "
        "step without accumulation may read once."
    ),
    "limits": (
        "Reads are counted on the host's tensors, as a device would have to be waited for. Lines that look "
        "for NaN and the step itself have to wait and are left out; so is what a loop does so seldom that it "
        "is told to. Waiting of libraries that the step calls counts for the line that calls them."
    ),
    "remediation": "Add losses up on the device (total += loss.detach()) and read them once where they are logged.",
    "remediation_code": "remedies/training_step.py",
    "verification": ["the number of reads does not grow with the micro-batches of a step"],
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
    """Reproduced where each further micro-batch is read, or each step more often than once."""
    counts = {each.case["micro_batches"]: each.value for each in measurements}
    low, high = min(counts), max(counts)
    slope = (counts[high] - counts[low]) / (high - low)
    constant = counts[low] - slope * low
    law = "{:g}N{:+g} reads".format(slope, constant) if slope else "{:g} reads".format(constant)
    accumulates = measurements[0].case["accumulates"]
    allowed = 0 if accumulates else policy["reads_per_batch"]
    if slope <= allowed:
        message = "{} reads for {} batches, {} for {}".format(counts[low], low, counts[high], high)
        return {"outcome": "not_reproduced", "message": message, "law": law}
    message = "the host reads the device {:g} times for every {}: {} times for {}"
    text = message.format(slope, "micro-batch" if accumulates else "step", counts[high], high)
    return {"outcome": "reproduced", "occurs": "common" if accumulates else "rare", "message": text, "law": law}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
