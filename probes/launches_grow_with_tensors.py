#!/usr/bin/env python3
"""How many kernels does one call launch, as a law in the number of tensors?"""

PROBE = {
    "id": "launches_grow_with_tensors",
    "version": 2,
    "title": "Kernel launches grow with the number of tensors",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Performance bottleneck"],
    "agent": "PT",
    "breaks": "cost",
    "occurs": "rare",
    "lifecycle": "stable",
    "statement_does": "launches most kernels",
    "instrument": "launches",
    "motivation": "A launch costs the host some microseconds, whatever the kernel does. A few for each of a model's "
    "hundreds of small tensors take longer than the arithmetic, and the device waits.",
    "method": "Launches of one whole call at 4, 16, 64 and 256 tensors, counted exactly, and the line through them; "
    "for bfloat16, which a collector may convert tensor by tensor, at 4 and 16. On a CPU and in simulation an operator "
    "that launches at least one kernel counts once.",
    "limits": "Without a device an operator that launches several kernels counts once, and a foreach operator counts "
    "once although CUDA packs about a hundred tensors into each launch: hence the policy's small slope.",
    "remediation": "Use the foreach operators, which pack many tensors into one launch, and reduce their stacked "
    "results.",
    "remediation_code": "remedies/total_norm.py",
    "verification": ["the number of launches does not grow from 4 to 256 tensors, nor from 4 to 16 of bfloat16"],
    "measurements": {
        "launch_count": "count",
        "launch_count_law": "per tensor",
        "bfloat16_launch_count": "count",
        "bfloat16_launch_count_law": "per tensor",
    },
    "policy": {"launches_per_tensor": 0.1},
}

_TENSOR_COUNTS = (4, 16, 64, 256)
_NARROW_COUNTS = (4, 16)
_ELEMENTS = 128
_MANY_LAUNCHES = 8.0
_FOR_DEBUGGING = ("debug", "sanity")


def measure(ctx):
    """Yield the exact count at every number of tensors, and the line that launches most."""
    law, sites = yield from _counted(ctx, "launch_count", _TENSOR_COUNTS, "float32")
    try:
        narrow_law, narrow_sites = yield from _counted(ctx, "bfloat16_launch_count", _NARROW_COUNTS, "bfloat16")
    except (ctx.TargetRaised, ctx.NotApplicable) as error:
        yield ctx.note("bfloat16 gradients were not judged: {}".format(error))
        narrow_law, narrow_sites = 0.0, sites
    only_narrow = _grows(narrow_law, PROBE["policy"]) and not _grows(law, PROBE["policy"])
    yield ctx.location(ctx.most_common(narrow_sites if only_narrow else sites))


def _counted(ctx, name, tensor_counts, dtype):
    """The slope of the law, and the lines that launch at the largest number of tensors; measured on the way."""
    counts, sites = {}, []
    for tensors in tensor_counts:
        count = ctx.launches(ctx.gradients(tensors, _ELEMENTS, dtype))
        counts[tensors], sites = count.total, count.sites
        yield ctx.measurement(name, count.total, "count", tensors=tensors)
    law = ctx.law(name + "_law", counts)
    place = ctx.definition()
    if place is not None and any(word in (place.file + place.function).lower() for word in _FOR_DEBUGGING):
        law["case"]["debugging"] = True
    yield law
    return law["value"], sites


def _grows(law, policy):
    return law > policy["launches_per_tensor"]


def judge(measurements, policy):
    """Reproduced where the slope is above what foreach's packing explains."""
    laws = [m for m in measurements if m.name.endswith("_law")]
    law = next((m for m in laws if _grows(m.value, policy)), laws[0])
    name = law.name[: -len("_law")]
    largest = max((m for m in measurements if m.name == name), key=lambda m: m.case["tensors"])
    message = "launches per call{}: {} for n tensors ({:,} at {})".format(
        "" if law is laws[0] else " on bfloat16 gradients", law.case["law"], largest.value, largest.case["tensors"]
    )
    outcome = "reproduced" if _grows(law.value, policy) else "not_reproduced"
    # At 5 us a launch, 300 tensors take 12 ms of a step at 8 each; at one each 1.5, hidden behind the kernels.
    is_noticed = law.value >= _MANY_LAUNCHES and "debugging" not in law.case
    occurs = "common" if is_noticed else "rare"
    return {"outcome": outcome, "occurs": occurs, "message": message, "law": law.case["law"]}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
