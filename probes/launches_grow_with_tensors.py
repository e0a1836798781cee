#!/usr/bin/env python3
"""How many kernels does one call launch, as a law in the number of tensors?"""

from forms import run_alone, verdict

PROBE = {
    "version": 3,
    "title": "Kernel launches grow with the number of tensors",
    "categories": ["Performance bottleneck"],
    "breaks": "cost",
    "occurs": "rare",
    "statement_does": "launches most kernels",
    "instrument": "launches",
    "motivation": "A launch costs the host some microseconds. A few for each of hundreds of small tensors take longer "
    "than the arithmetic.",
    "method": "Launches of one call at 4, 16, 64 and 256 tensors, and the line through them. Without a GPU an operator "
    "that launches a kernel counts once.",
    "limits": "A foreach operator counts once although CUDA packs about a hundred tensors into a launch: hence the "
    "policy's small slope.",
    "remediation": "Use foreach operators, which pack many tensors into one launch, and reduce their stacked results.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"launch_count": "count", "launch_count_law": "per tensor"},
    "policy": {"launches_per_tensor": 0.1},
}

_TENSOR_COUNTS = (4, 16, 64, 256)
_ELEMENTS = 128
_MANY_LAUNCHES = 8.0
_FOR_DEBUGGING = ("debug", "sanity")


def measure(ctx):
    """Yield the exact count at every number of tensors, and the line that launches most."""
    counts, sites = {}, []
    for tensors in _TENSOR_COUNTS:
        count = ctx.launches(ctx.gradients(tensors, _ELEMENTS))
        counts[tensors], sites = count.total, count.sites
        yield ctx.measurement("launch_count", count.total, "count", tensors=tensors)
    law, place = ctx.law("launch_count_law", counts), ctx.definition()
    if place is not None and any(word in (place.file + place.function).lower() for word in _FOR_DEBUGGING):
        law["case"]["debugging"] = True
    yield law
    yield ctx.location(ctx.most_common(sites))


def judge(measurements, policy):
    """Reproduced where the slope is above what foreach's packing explains."""
    law = next(m for m in measurements if m.name == "launch_count_law")
    largest = max((m for m in measurements if m.name == "launch_count"), key=lambda m: m.case["tensors"])
    message = "launches per call: {} for n tensors ({:,} at {})".format(
        law.case["law"], largest.value, largest.case["tensors"]
    )
    # At 5 us a launch, 300 tensors take 12 ms of a step at 8 each; at one each 1.5, hidden behind the kernels.
    is_noticed = law.value >= _MANY_LAUNCHES and "debugging" not in law.case
    occurs = "common" if is_noticed else "rare"
    return verdict(law.value > policy["launches_per_tensor"], message, occurs=occurs, law=law.case["law"])


if __name__ == "__main__":
    run_alone(__file__)
