"""How many kernels does one call launch, as a law in the number of tensors?"""

PROBE = {
    "id": "launches_grow_with_tensors",
    "version": 1,
    "title": "Kernel launches grow with the number of tensors",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Performance bottleneck"],
    "agent": "PT",
    "severity": "P3",
    "lifecycle": "stable",
    "instrument": "launches",
    "motivation": "A launch costs the host some microseconds, whatever the kernel does. A few for each of a model's "
    "hundreds of small tensors take longer than the arithmetic, and the device waits.",
    "method": "Launches of one whole call at 4, 16, 64 and 256 tensors, counted exactly, and the line through them. "
    "On a CPU and in simulation an operator that launches at least one kernel counts once.",
    "limits": "Without a device an operator that launches several kernels counts once, and a foreach operator counts "
    "once although CUDA packs about a hundred tensors into each launch: hence the policy's small slope.",
    "remediation": "Use the foreach operators, which pack many tensors into one launch, and reduce their stacked "
    "results.",
    "remediation_code": "remedies/total_norm.py",
    "verification": ["the number of launches does not grow from 4 to 256 tensors"],
    "measurements": {"launch_count": "count", "launch_count_law": "per tensor"},
    "policy": {"launches_per_tensor": 0.1},
}

_TENSOR_COUNTS = (4, 16, 64, 256)
_ELEMENTS = 128


def measure(ctx):
    """Yield the exact count at every number of tensors, and the line that launches most."""
    counts = {}
    for tensors in _TENSOR_COUNTS:
        count = ctx.launches(ctx.gradients(tensors, _ELEMENTS))
        counts[tensors] = count.total
        yield ctx.measurement("launch_count", count.total, "count", tensors=tensors)
    yield ctx.law("launch_count_law", counts)
    yield ctx.location(ctx.most_common(count.sites))


def judge(measurements, policy):
    """Reproduced where the slope is above what foreach's packing explains."""
    law = next(m for m in measurements if m.name == "launch_count_law")
    largest = max((m for m in measurements if m.name == "launch_count"), key=lambda m: m.case["tensors"])
    message = "launches per call: {} for n tensors ({:,} at {})".format(
        law.case["law"], largest.value, largest.case["tensors"]
    )
    reproduced = law.value > policy["launches_per_tensor"]
    outcome = "reproduced" if reproduced else "not_reproduced"
    return {"outcome": outcome, "message": message, "law": law.case["law"]}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
