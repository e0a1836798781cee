#!/usr/bin/env python3
"""How many bytes does one call add at its peak, for each byte of gradients?"""

from forms import run_alone, verdict

PROBE = {
    "version": 2,
    "title": "Peak memory grows with the parameters",
    "categories": ["Memory leak / resource issue", "Performance bottleneck"],
    "breaks": "cost",
    "occurs": "common",
    "statement_does": "holds most at the peak",
    "instrument": "memory",
    # 100M parameters in float32, and the copies that a careless collector makes of them: 3,691 MB were held at most.
    "memory_mb": 3800,
    "motivation": "Statistics are collected when memory is fullest. A temporary as large as the gradients (torch.cat, "
    ".double(), a mask summed as int64) can end a run that fits otherwise.",
    "method": "Peak bytes above the baseline during one call, from the allocator's events, at 1M, 10M and 100M float32 "
    "parameters in ten tensors and 20M of bfloat16 in a hundred (judged), and at 10M in one and in a hundred tensors "
    "(shown). NumPy and Python memory is counted at 10M. Larger sizes are extrapolated.",
    "limits": "Memory outside the allocator and tracemalloc is not seen. CPU and CUDA kernels allocate different "
    "temporaries.",
    "remediation": "Reduce tensors in place, or in buffers of a million elements; keep only scalars. Count with "
    "torch.count_nonzero: bool.sum() builds an int64 copy.",
    "remediation_code": "remedies/gradient_counts.py",
    "measurements": {
        "peak_extra_bytes": "bytes",
        "peak_extra_per_gradient_byte": "ratio",
        "python_peak_per_gradient_byte": "ratio",
        "live_at_peak": "ratio",
    },
    "policy": {"share": 0.25},
}

_SIZES = (1_000_000, 10_000_000, 100_000_000)
_SHAPES_AT_10M = (1, 100)
_TENSORS = 10
_COPIES = 3.0
_EXTRAPOLATED_PARAMS = 1_000_000_000
_BYTES = 4
# As many bytes as 10M of float32. One copy at a time is rightly 4 % of them: torch's own norms with a dtype make it.
_NARROW_PARAMS, _NARROW_TENSORS = 20_000_000, 100
_NARROW_BYTES = 2
# A case is skipped where gradients plus the expected peak would take more than this share of free memory.
_FREE_SHARE = 0.8


def measure(ctx):
    """Yield peak bytes at every size and shape, the lines that hold them, and one extrapolated row."""
    ctx.peak_bytes(ctx.gradients(_TENSORS, 1000))
    narrow = yield from _narrow(ctx)
    yield from _where(ctx, narrow)
    measured = {}
    for params in ctx.options.get("memory_sizes", _SIZES):
        needed = _needed_bytes(params, measured)
        if needed > ctx.available_bytes() * _FREE_SHARE:
            yield ctx.note("{:,} parameters need about {:,} bytes, more than is free".format(params, int(needed)))
            yield from _extrapolated(ctx, params, measured)
            continue
        measured[params] = ctx.peak_bytes(ctx.gradients(_TENSORS, params // _TENSORS))
        yield from _rows(ctx, params, _TENSORS, measured[params])
    for tensors in _SHAPES_AT_10M:
        yield from _rows(ctx, 10_000_000, tensors, ctx.peak_bytes(ctx.gradients(tensors, 10_000_000 // tensors)))
    yield from _in_python(ctx)
    yield from _largest(ctx, measured)


def _narrow(ctx):
    """The peak for bfloat16 as a ratio, measured; 0 where the target does not take it."""
    try:
        peak = ctx.peak_bytes(ctx.gradients(_NARROW_TENSORS, _NARROW_PARAMS // _NARROW_TENSORS, "bfloat16"))
    except (ctx.TargetRaised, ctx.NotApplicable) as error:
        yield ctx.note("bfloat16 gradients were not judged: {}".format(error))
        return 0.0
    ratio = peak / (_NARROW_PARAMS * _NARROW_BYTES)
    case = {"params": _NARROW_PARAMS, "tensors": _NARROW_TENSORS, "dtype": "bfloat16"}
    yield ctx.measurement("peak_extra_bytes", peak, "bytes", **case)
    yield ctx.measurement("peak_extra_per_gradient_byte", ratio, "ratio", **case)
    return ratio


def _where(ctx, narrow):
    """The lines that hold memory for float32, or for bfloat16 where only that takes more than its share."""
    dtype, gradient_bytes = "float32", 1_000_000 * _BYTES
    holders = ctx.live_at_peak(ctx.gradients(_TENSORS, 100_000))
    share = PROBE["policy"]["share"]
    if narrow > share >= sum(holder.live_bytes for holder in holders) / gradient_bytes:
        dtype, gradient_bytes = "bfloat16", 1_000_000 * _NARROW_BYTES
        holders = ctx.live_at_peak(ctx.gradients(_TENSORS, 100_000, dtype))
    ours = [holder for holder in holders if holder.site is not None]
    for holder in ours[:5]:
        case = {"dtype": dtype, "line": "{}:{}".format(holder.site.file, holder.site.line)}
        ratio = holder.live_bytes / gradient_bytes
        yield ctx.measurement("live_at_peak", ratio, "ratio", params=1_000_000, tensors=_TENSORS, **case)
    yield ctx.location(ours[0].site if ours else ctx.definition())


def _needed_bytes(params, measured):
    ratio = max((peak / (size * _BYTES) for size, peak in measured.items()), default=6.0)
    return params * _BYTES * (1 + ratio)


def _rows(ctx, params, tensors, peak):
    case = {"params": params, "tensors": tensors, "dtype": "float32"}
    yield ctx.measurement("peak_extra_bytes", peak, "bytes", **case)
    yield ctx.measurement("peak_extra_per_gradient_byte", peak / (params * _BYTES), "ratio", **case)


def _in_python(ctx):
    peak = ctx.peak_bytes(ctx.gradients(_TENSORS, 1_000_000), python=True)
    case = {"params": 10_000_000, "tensors": _TENSORS, "dtype": "float32"}
    yield ctx.measurement("python_peak_per_gradient_byte", peak / (10_000_000 * _BYTES), "ratio", **case)


def _largest(ctx, measured):
    """1B parameters: measured on a device with enough memory, else from the line, and said so."""
    if ctx.device == "cuda" and _needed_bytes(_EXTRAPOLATED_PARAMS, measured) < ctx.available_bytes() * _FREE_SHARE:
        peak = ctx.peak_bytes(ctx.gradients(_TENSORS, _EXTRAPOLATED_PARAMS // _TENSORS))
        yield from _rows(ctx, _EXTRAPOLATED_PARAMS, _TENSORS, peak)
        return
    yield from _extrapolated(ctx, _EXTRAPOLATED_PARAMS, measured)


def _extrapolated(ctx, params, measured):
    """The line through the two largest measured sizes, with its distance from the third as residual."""
    if len(measured) < 2:
        return
    *rest, (small, small_peak), (large, large_peak) = sorted(measured.items())
    slope = (large_peak - small_peak) / (large - small)
    residual = max((abs(small_peak - slope * (small - size) - peak) for size, peak in rest), default=0.0)
    peak = large_peak + slope * (params - large)
    case = {"params": params, "tensors": _TENSORS, "dtype": "float32", "residual_bytes": int(residual)}
    yield ctx.measurement("peak_extra_bytes", int(peak), "bytes", evidence="extrapolated", **case)
    ratio = peak / (params * _BYTES)
    yield ctx.measurement("peak_extra_per_gradient_byte", ratio, "ratio", evidence="extrapolated", **case)


def judge(measurements, policy):
    """Reproduced where the largest measured size in ten tensors, or bfloat16, takes more than the policy's share."""
    ratios = [m for m in measurements if m.name == "peak_extra_per_gradient_byte" and m.evidence != "extrapolated"]
    narrow = [m for m in ratios if m.case["dtype"] == "bfloat16"]
    largest = max((m for m in ratios if m.case["tensors"] == 10), key=lambda m: m.case["params"])
    one_tensor = next(m for m in ratios if m.case["tensors"] == 1)
    message = "{:.3g}x the gradients' bytes at the peak, {:,} parameters in 10 tensors ({:.3g}x at {:,} in one)".format(
        largest.value, largest.case["params"], one_tensor.value, one_tensor.case["params"]
    )
    worst = largest
    if narrow and narrow[0].value > policy["share"] >= largest.value:
        worst = narrow[0]
        text = "{:.3g}x the gradients' bytes at the peak, {:,} bfloat16 parameters in 100 tensors ({:.3g}x in float32)"
        message = text.format(worst.value, worst.case["params"], largest.value)
    python = next(m for m in measurements if m.name == "python_peak_per_gradient_byte")
    if python.value > max(worst.value, policy["share"]):
        worst = python
        message = (
            "{:.3g}x the gradients' bytes in NumPy and Python memory at the peak, {:,} parameters in 10 tensors".format(
                python.value, python.case["params"]
            )
        )
    law = "{:.3g} bytes per gradient byte".format(worst.value)
    # When a norm is read the activations are gone: that often leaves memory for a copy or two, seldom for three.
    occurs = "ordinary" if worst.value >= _COPIES else "common"
    return verdict(worst.value > policy["share"], message, occurs=occurs, law=law)


if __name__ == "__main__":
    run_alone(__file__)
