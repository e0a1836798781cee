"""How many bytes does one call add at its peak, as a law in the number of tensors of one size?

A test's guard runs it and judges by its own law, so it is in no list of probes.
"""

from forms import verdict

PROBE = {
    "title": "Peak memory by the number of tensors",
    "categories": [],
    "breaks": "cost",
    "occurs": "common",
    "lifecycle": "experimental",
    "instrument": "memory",
    "devices": ["cuda", "cpu"],
    "motivation": "A peak that is the same for 4 and for 256 tensors holds no copy of the gradients.",
    "method": "Peak bytes above the baseline during one call at 4, 16, 64 and 256 tensors of 65,536 float32 elements, "
    "from the allocator's events and from tracemalloc.",
    "limits": "Memory that a library takes from the system by itself is not seen.",
    "remediation": "Reduce tensors in place, or in buffers of a million elements; keep only scalars.",
    "measurements": {"peak_extra_bytes": "bytes", "python_peak_bytes": "bytes"},
}

_TENSOR_COUNTS = (4, 16, 64, 256)
_ELEMENTS = 1 << 16


def measure(ctx):
    """Yield the peak at every number of tensors, by the allocator and in Python, and the line that holds most."""
    ctx.peak_bytes(ctx.gradients(4, 1000))
    for tensors in _TENSOR_COUNTS:
        grads = ctx.gradients(tensors, _ELEMENTS)
        yield ctx.measurement("peak_extra_bytes", ctx.peak_bytes(grads), "bytes", tensors=tensors)
        yield ctx.measurement("python_peak_bytes", ctx.peak_bytes(grads, python=True), "bytes", tensors=tensors)
    holders = [each for each in ctx.live_at_peak(ctx.gradients(64, _ELEMENTS)) if each.site is not None]
    yield ctx.location(holders[0].site if holders else ctx.definition())


def judge(measurements, policy):
    """Judge nothing: the guard has its own law."""
    return verdict(False, "{} figures".format(len(measurements)))
