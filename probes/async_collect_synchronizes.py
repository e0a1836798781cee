"""Does a step documented as asynchronous make the host wait?"""

PROBE = {
    "id": "async_collect_synchronizes",
    "version": 2,
    "title": "The asynchronous collection synchronises",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Performance bottleneck", "API design / contract violation"],
    "agent": "PT",
    "severity": "P2",
    "lifecycle": "stable",
    "instrument": "syncs",
    "motivation": "A collector that promises to leave its results on the device is called inside a stream, between "
    "kernels, because of that promise. One hidden read serialises the stream, and nothing in the result shows it.",
    "method": "Synchronisations of the collecting step alone, without the step that finishes it, at 4 and 64 tensors. "
    "Applies to functions whose name ends in _async, that have a finishing step, or whose docstring says so.",
    "limits": "A promise made only in a document outside the code is not known here; name the finishing step to ask.",
    "remediation": "Return device tensors and read them in the finishing step, once, after the stream has been "
    "waited for.",
    "remediation_code": "remedies/collect_norm_async.py",
    "verification": ["the collecting step performs no synchronisation at 4 and at 64 tensors"],
    "measurements": {"collect_sync_count": "count"},
}

_TENSOR_COUNTS = (4, 64)
_ELEMENTS = 128


def measure(ctx):
    """Yield the exact count of the collecting step, and the first line that waits."""
    if not ctx.plan.is_async:
        raise ctx.NotApplicable("nothing documents it as asynchronous")
    for tensors in _TENSOR_COUNTS:
        count = ctx.syncs(ctx.gradients(tensors, _ELEMENTS), whole=False)
        yield ctx.measurement("collect_sync_count", count.total, "count", tensors=tensors)
    if count.total:
        yield ctx.location(next((site for site in count.sites if site is not None), ctx.definition()))


def judge(measurements, policy):
    """Reproduced where the collecting step synchronises at all."""
    worst = max(measurements, key=lambda m: m.value)
    if not worst.value:
        return {
            "outcome": "not_reproduced",
            "message": "the collecting step performs no synchronisation",
            "law": "0",
        }
    message = "synchronisations in the collecting step: {:,} at {} tensors".format(worst.value, worst.case["tensors"])
    return {"outcome": "reproduced", "message": message}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
