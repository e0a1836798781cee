#!/usr/bin/env python3
"""How many times does the host wait for the device, as a law in the number of tensors?"""

import collections

from forms import counted_law, law_in_words, run_alone, verdict

PROBE = {
    "version": 2,
    "title": "Syncs grow with the number of tensors",
    "categories": ["Performance bottleneck"],
    "breaks": "cost",
    "occurs": "ordinary",
    "statement_does": "waits for the device most often",
    "instrument": "syncs",
    "motivation": "Every .item(), .cpu() or bool() of a device tensor makes the host wait for all queued work. One for "
    "each of a model's hundreds of parameters stalls the device hundreds of times a step.",
    "method": "Syncs of one whole call (with the step that finishes it) at 4, 16, 64 and 256 tensors, counted exactly, "
    "and the line through them. Reading a copy on the host is free.",
    "limits": "Simulation counts where PyTorch's CUDA back end waits; waits inside an extension are seen only on a "
    "real device.",
    "remediation": "Keep every statistic on the device, stack them, and read the stack once.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"sync_count": "count", "sync_count_law": "per tensor", "syncs_at_line": "count"},
}

_MOST_LINES = 5


def measure(ctx):
    """Yield the exact count at every number of tensors, and the line that causes most of them."""
    slope, sites = yield from counted_law(ctx, "sync_count", ctx.syncs)
    if slope or sites:
        lines = collections.Counter("{}:{}".format(site.file, site.line) for site in sites if site is not None)
        for line, times in lines.most_common(_MOST_LINES):
            yield ctx.measurement("syncs_at_line", times, "count", line=line, tensors=256)
        yield ctx.location(ctx.most_common(sites))


def judge(measurements, policy):
    """Reproduced if the slope is above 0."""
    law, message = law_in_words(measurements, "sync_count", "synchronizations")
    return verdict(law.value > 0, message, law=law.case["law"], occurs={"tensors": "ordinary"})


if __name__ == "__main__":
    run_alone(__file__)
