#!/usr/bin/env python3
"""How many bytes does one call add at its peak, for each byte of gradients?"""

from forms import rows, run_alone, unless_refused, verdict

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
    "parameters in ten tensors and 20M of bfloat16 in a hundred (judged), and at 10M in one tensor (shown). NumPy and "
    "Python memory is counted at 10M. Larger sizes are extrapolated.",
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
_TENSORS = 10
_COPIES = 3.0
_EXTRAPOLATED_PARAMS = 1_000_000_000
_BYTES = {"float32": 4, "bfloat16": 2}
# As many bytes as 10M float32 parameters. One copy at a time is 4 % of them: torch's own norms with a dtype need it.
_NARROW_PARAMS, _NARROW_TENSORS = 20_000_000, 100
# A case is skipped if gradients plus the expected peak would need more than this share of free memory.
_FREE_SHARE = 0.8


def measure(ctx):
    """Yield peak bytes at every size and shape, the lines that hold them, and one extrapolated row."""

    def peak_of(params, tensors, dtype="float32"):
        return ctx.peak_bytes(ctx.gradients(tensors, params // tensors, dtype))

    peak_of(10_000, _TENSORS)
    narrow, note = unless_refused(ctx, "bfloat16", lambda: peak_of(_NARROW_PARAMS, _NARROW_TENSORS, "bfloat16"))
    if note:
        yield note
    else:
        yield from _rows(ctx, _NARROW_PARAMS, _NARROW_TENSORS, narrow, "bfloat16")
    yield from _where(ctx, (narrow or 0) / (_NARROW_PARAMS * _BYTES["bfloat16"]))
    measured = {}
    for params in ctx.options.get("memory_sizes", _SIZES):
        if _fits(ctx, params, measured):
            measured[params] = peak_of(params, _TENSORS)
            yield from _rows(ctx, params, _TENSORS, measured[params])
        else:
            needed = int(_needed_bytes(params, measured))
            yield ctx.note("{:,} parameters need about {:,} bytes, more than is free".format(params, needed))
            yield from _extrapolated(ctx, params, measured)
    yield from _rows(ctx, 10_000_000, 1, peak_of(10_000_000, 1))
    peak = ctx.peak_bytes(ctx.gradients(_TENSORS, 1_000_000), python=True)
    case = {"params": 10_000_000, "tensors": _TENSORS, "dtype": "float32"}
    yield ctx.measurement("python_peak_per_gradient_byte", peak / (10_000_000 * _BYTES["float32"]), "ratio", **case)
    if ctx.device == "cuda" and _fits(ctx, _EXTRAPOLATED_PARAMS, measured):
        yield from _rows(ctx, _EXTRAPOLATED_PARAMS, _TENSORS, peak_of(_EXTRAPOLATED_PARAMS, _TENSORS))
    else:
        yield from _extrapolated(ctx, _EXTRAPOLATED_PARAMS, measured)


def _where(ctx, narrow):
    """Return the lines that hold memory for float32, or for bfloat16 if only that exceeds its share."""
    dtype, share = "float32", PROBE["policy"]["share"]
    holders = ctx.live_at_peak(ctx.gradients(_TENSORS, 100_000))
    if narrow > share >= sum(holder.live_bytes for holder in holders) / (1_000_000 * _BYTES[dtype]):
        dtype = "bfloat16"
        holders = ctx.live_at_peak(ctx.gradients(_TENSORS, 100_000, dtype))
    ours = [holder for holder in holders if holder.site is not None]
    for holder in ours[:5]:
        case = {"dtype": dtype, "line": "{}:{}".format(holder.site.file, holder.site.line)}
        ratio = holder.live_bytes / (1_000_000 * _BYTES[dtype])
        yield ctx.measurement("live_at_peak", ratio, "ratio", params=1_000_000, tensors=_TENSORS, **case)
    yield ctx.location(ours[0].site if ours else ctx.definition())


def _needed_bytes(params, measured):
    ratio = max((peak / (size * _BYTES["float32"]) for size, peak in measured.items()), default=6.0)
    return params * _BYTES["float32"] * (1 + ratio)


def _fits(ctx, params, measured):
    return _needed_bytes(params, measured) <= ctx.available_bytes() * _FREE_SHARE


def _rows(ctx, params, tensors, peak, dtype="float32", **how):
    case = {"params": params, "tensors": tensors, "dtype": dtype, **how}
    ratio = peak / (params * _BYTES[dtype])
    yield from rows(ctx, PROBE, case, peak_extra_bytes=int(peak), peak_extra_per_gradient_byte=ratio)


def _extrapolated(ctx, params, measured):
    """Yield the line through the two largest measured sizes, with its distance from the third as residual."""
    if len(measured) < 2:
        return
    *rest, (small, small_peak), (large, large_peak) = sorted(measured.items())
    slope = (large_peak - small_peak) / (large - small)
    residual = max((abs(small_peak - slope * (small - size) - peak) for size, peak in rest), default=0.0)
    peak = large_peak + slope * (params - large)
    yield from _rows(ctx, params, _TENSORS, peak, evidence="extrapolated", residual_bytes=int(residual))


def judge(measurements, policy):
    """Reproduced if the largest measured size in ten tensors, or bfloat16, exceeds the policy's share."""
    ratios = [m for m in measurements if m.name == "peak_extra_per_gradient_byte" and m.evidence != "extrapolated"]
    narrow = [m for m in ratios if m.case["dtype"] == "bfloat16"]
    worst = largest = max((m for m in ratios if m.case["tensors"] == 10), key=lambda m: m.case["params"])
    one_tensor = next(m for m in ratios if m.case["tensors"] == 1)
    message = "{:.3g}x the gradients' bytes at the peak, {:,} parameters in 10 tensors ({:.3g}x at {:,} in one)"
    message = message.format(largest.value, largest.case["params"], one_tensor.value, one_tensor.case["params"])
    if narrow and narrow[0].value > policy["share"] >= largest.value:
        worst = narrow[0]
        message = "{:.3g}x the gradients' bytes at the peak, {:,} bfloat16 parameters in 100 tensors ({:.3g}x in {})"
        message = message.format(worst.value, worst.case["params"], largest.value, "float32")
    python = next(m for m in measurements if m.name == "python_peak_per_gradient_byte")
    if python.value > max(worst.value, policy["share"]):
        worst = python
        message = "{:.3g}x the gradients' bytes in NumPy and Python memory at the peak, {:,} parameters in 10 tensors"
        message = message.format(python.value, python.case["params"])
    law = "{:.3g} bytes per gradient byte".format(worst.value)
    # The activations are freed when a norm is read: often there is memory for two copies, rarely for three.
    occurs = "ordinary" if worst.value >= _COPIES else "common"
    return verdict(worst.value > policy["share"], message, occurs=occurs, law=law)


if __name__ == "__main__":
    run_alone(__file__)
