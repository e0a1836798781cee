#!/usr/bin/env python3
"""How many kernels does one call launch, as a law in the number of tensors?"""

from forms import counted_law, law_in_words, run_alone, verdict

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
    "method": "Launches of one call at 4, 16, 64 and 256 tensors, and the line through them; for bfloat16 at 4 and 16. "
    "Without a GPU an operator that launches a kernel counts once.",
    "limits": "A foreach operator counts once although CUDA packs about a hundred tensors into a launch: hence the "
    "policy's small slope.",
    "remediation": "Use foreach operators, which pack many tensors into one launch, and reduce their stacked results.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {
        "launch_count": "count",
        "launch_count_law": "per tensor",
        "bfloat16_launch_count": "count",
        "bfloat16_launch_count_law": "per tensor",
        "is_for_debugging": "truth",
    },
    "policy": {"launches_per_tensor": 0.1},
}

_MANY_LAUNCHES = 8.0
_FOR_DEBUGGING = ("debug", "dump", "sanity")


def measure(ctx):
    """Yield the exact count at every number of tensors, and the line that launches most."""
    slope, sites = yield from counted_law(ctx, "launch_count", ctx.launches)
    try:
        narrow = yield from counted_law(ctx, "bfloat16_launch_count", ctx.launches, (4, 16), "bfloat16")
        sites = narrow[1] if slope <= PROBE["policy"]["launches_per_tensor"] < narrow[0] else sites
    except (ctx.TargetRaised, ctx.NotApplicable) as error:
        yield ctx.note("bfloat16 gradients were not judged: {}".format(error))
    place = ctx.definition()
    is_beside = place is not None and any(word in (place.file + place.function).lower() for word in _FOR_DEBUGGING)
    yield ctx.measurement("is_for_debugging", is_beside, "truth")
    yield ctx.location(ctx.most_common(sites))


def judge(measurements, policy):
    """Reproduced if the slope is above what foreach's packing explains."""
    laws = {m.name[: -len("_law")]: m.value for m in measurements if m.name.endswith("_law")}
    growing = [name for name, slope in laws.items() if slope > policy["launches_per_tensor"]]
    name = growing[0] if growing else "launch_count"
    law, message = law_in_words(measurements, name, "launches")
    if name != "launch_count":
        message = message.replace("per call", "per call on bfloat16 gradients", 1)
    # At 5 us per launch, 300 tensors with 8 launches each add 12 ms to a step; with one launch each, 1.5 ms, hidden by
    # the kernels.
    is_noticed = law.value >= _MANY_LAUNCHES and not any(m.value for m in measurements if m.name == "is_for_debugging")
    occurs = "common" if is_noticed else "rare"
    return verdict(bool(growing), message, occurs=occurs, law=law.case["law"])


if __name__ == "__main__":
    run_alone(__file__)
