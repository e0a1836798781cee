#!/usr/bin/env python3
"""Does the memory of a batched decomposition grow with the replicas, or with a chunk of them?"""

from forms import rows, run_alone, verdict

PROBE = {
    "title": "The memory of a decomposition grows with the replicas",
    "contracts": ["aligned_svd"],
    "categories": ["Memory leak / resource issue", "Performance bottleneck"],
    "breaks": "cost",
    "occurs": "ordinary",
    "instrument": "memory",
    "devices": ["cuda", "cpu"],
    "motivation": "One torch.linalg.svd over (R, N, M) holds all factors at once: 64 replicas of 4096 x 1024 take 1.1 "
    "GB a copy. Replicas are independent, so a chunk is enough.",
    "method": "Peak bytes above the baseline, less the result's own, at 4 to 128 replicas of 16384 x 4. The slope "
    "between the two largest counts, in bytes per gradient byte, is judged.",
    "limits": "A chunk of 64 replicas or more looks like no chunk. Memory that LAPACK takes from the system is not "
    "seen.",
    "remediation": "Write each chunk's factors into tensors that are allocated once, with a chunk bounded in bytes.",
    "remediation_code": "remedies/aligned_svds.py",
    "measurements": {"peak_extra_bytes": "bytes", "answer_bytes": "bytes", "growth_per_gradient_byte": "ratio"},
    "policy": {"share": 0.25},
}

_COUNTS = (4, 16, 64, 128)
_ROWS, _COLUMNS = 16384, 4
_BYTES = 4
_FREE_SHARE = 0.5
_EXPECTED_COPIES = 8


def measure(ctx):
    """Yield peak and result for every number of replicas, the slope of the rest, and the line that holds most."""
    extra = {}
    parts = ctx.parts(ctx.matrices("replicas", 4, _ROWS, _COLUMNS)).values()
    answer_of_one = sum(part.numel() * part.element_size() for part in parts) // 4
    for count in ctx.options.get("replica_counts", _COUNTS):
        gradient_bytes = count * _ROWS * _COLUMNS * _BYTES
        if gradient_bytes * _EXPECTED_COPIES > ctx.available_bytes() * _FREE_SHARE:
            yield ctx.note("{:,} replicas may need more memory than is free".format(count))
            break
        answer = count * answer_of_one
        extra[count] = ctx.peak_bytes(ctx.matrices("replicas", count, _ROWS, _COLUMNS)) - answer
        case = {"replicas": count, "rows": _ROWS, "columns": _COLUMNS, "gradient_bytes": gradient_bytes}
        yield from rows(ctx, PROBE, case, peak_extra_bytes=extra[count], answer_bytes=answer)
    if len(extra) < 2:
        raise ctx.Unavailable("two counts of replicas need more memory than is free")
    (small, low), (large, high) = sorted(extra.items())[-2:]
    growth = (high - low) / ((large - small) * _ROWS * _COLUMNS * _BYTES)
    yield ctx.measurement("growth_per_gradient_byte", growth, "ratio", smallest=small, largest=large)
    holders = ctx.live_at_peak(ctx.matrices("replicas", 16, _ROWS, _COLUMNS))
    sites = [holder.site for holder in holders if holder.site is not None]
    yield ctx.location(sites[0] if sites else ctx.definition())


def judge(measurements, policy):
    """Reproduced if memory beyond the result grows by more than the policy's share of the gradients."""
    growth = next(m for m in measurements if m.name == "growth_per_gradient_byte")
    extra = {m.case["replicas"]: m.value for m in measurements if m.name == "peak_extra_bytes"}
    largest = max(extra)
    law = "{:.3g} bytes per gradient byte".format(growth.value)
    if growth.value <= policy["share"]:
        message, smallest = "{:,} bytes beyond the result at {} replicas, {:,} at {}", growth.case["smallest"]
        return verdict(False, message.format(extra[largest], largest, extra[smallest], smallest), law=law)
    message = "beyond the result memory grows by {:.3g} bytes for each byte of gradients: {:,} bytes at {} replicas"
    return verdict(True, message.format(growth.value, extra[largest], largest), law=law)


if __name__ == "__main__":
    run_alone(__file__)
