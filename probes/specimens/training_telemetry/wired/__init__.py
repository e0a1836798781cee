"""The same telemetry, put together: what is used is exported, and what is finished can be collected."""

from wired.collector import GradientCollector, GradientHealth, collect_gradients
from wired.dual import DualNorms, collect_dual_norms_async, materialize_dual_norms
from wired.norms import layer_norms

__all__ = [
    "DualNorms",
    "GradientCollector",
    "GradientHealth",
    "collect_dual_norms_async",
    "collect_gradients",
    "layer_norms",
    "materialize_dual_norms",
]
