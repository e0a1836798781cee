"""How many bytes does one call add at its peak, as a law in the number of tensors of one size?

Asked as a probe is: `measure` is handed the context of one target, and imports nothing.
"""

from collections.abc import Iterator
from typing import Any

ELEMENTS = 1 << 16
BYTES = 4
_TENSOR_COUNTS = (4, 16, 64, 256)


def measure(ctx: Any) -> Iterator[dict[str, Any]]:
    """Yield the peak at every number of tensors, by the allocator and in Python, and the line that holds most."""
    ctx.peak_bytes(ctx.gradients(4, 1000))
    for tensors in _TENSOR_COUNTS:
        peak = ctx.peak_bytes(ctx.gradients(tensors, ELEMENTS))
        yield ctx.measurement("peak_extra_bytes", peak, "bytes", tensors=tensors)
        peak = ctx.python_peak_bytes(ctx.gradients(tensors, ELEMENTS))
        yield ctx.measurement("python_peak_bytes", peak, "bytes", tensors=tensors)
    holders = [holder for holder in ctx.live_at_peak(ctx.gradients(64, ELEMENTS)) if holder.site is not None]
    yield ctx.location(holders[0].site if holders else ctx.definition())


def judge(measurements: Any, _policy: Any) -> dict[str, str]:
    """The guard judges by its own law."""
    return {"outcome": "not_reproduced", "message": f"{len(measurements)} figures"}
