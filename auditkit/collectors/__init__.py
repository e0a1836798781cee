"""Gradient statistics that do not overflow, take no memory that grows with the model and do not synchronize.

    norm = clip_gradients(model.parameters(), 1.0)    # scales; the norm before, a tensor that was not read
    pending = collect_gradients(model.parameters())   # enqueues; nothing is read back from the device
    stats = pending.materialize()                     # one device-to-host copy per device

Reading order: sources (which gradients), strided (how a tensor is cut into pieces), records (the numbers
kept per gradient), cpu_pass, device_pass and triton_pass (how they are computed: by triton_kernels), sharding
(DTensor), pending (sets of gradients until they are read), statistics and collect (what a user sees), clip, and dual
(two groups, and the watch over one of them).
"""

from .clip import clip_gradients
from .collect import PendingGradientStats, collect_gradients, compute_total_norm
from .dual import (
    ISOLATION_NORM_THRESHOLD,
    DualGradientStats,
    GradientIsolationMonitor,
    PendingDualGradientStats,
    collect_dual_gradients,
)
from .sources import GradientSource
from .statistics import EXPLODING_NORM_THRESHOLD, VANISHING_NORM_THRESHOLD, GradientStats

__all__ = [
    "EXPLODING_NORM_THRESHOLD",
    "ISOLATION_NORM_THRESHOLD",
    "VANISHING_NORM_THRESHOLD",
    "DualGradientStats",
    "GradientIsolationMonitor",
    "GradientSource",
    "GradientStats",
    "PendingDualGradientStats",
    "PendingGradientStats",
    "clip_gradients",
    "collect_dual_gradients",
    "collect_gradients",
    "compute_total_norm",
]
