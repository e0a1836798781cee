"""Statistics follow from the measures of each gradient."""

import math
import sys

from auditkit.collectors import DualGradientStats
from auditkit.collectors.records import GradientMeasure
from auditkit.collectors.statistics import EXPLODING_NORM_THRESHOLD, VANISHING_NORM_THRESHOLD, summarize


def measure(norm: float, nonzero_count: int = 10, nan_count: int = 0, inf_count: int = 0) -> GradientMeasure:
    return GradientMeasure(norm, nonzero_count, nan_count, inf_count)


def test_thresholds_are_exclusive() -> None:
    """A norm on a threshold neither vanishes nor explodes."""
    norms = [VANISHING_NORM_THRESHOLD, EXPLODING_NORM_THRESHOLD, 1e-8, 101.0]
    stats = summarize([measure(norm) for norm in norms], [10] * 4)
    assert (stats.vanishing_count, stats.exploding_count, stats.health) == (1, 1, 0.5)


def test_a_nan_shows_everywhere_and_leaves_the_finite_norm() -> None:
    """NaN: total, extremes and ratio are NaN, health is 0, finite_norm is the rest's."""
    stats = summarize([measure(3.0, nan_count=1), measure(4.0)], [10, 10])
    assert all(math.isnan(x) for x in (stats.total_norm, stats.min_norm, stats.max_norm, stats.norm_ratio))
    assert (stats.finite_norm, stats.health) == (5.0, 0.0)
    assert math.isnan(stats.per_tensor_norms[0])
    assert stats.per_tensor_norms[1] == 4.0


def test_norm_ratio_leaves_zeros_out_and_is_finite() -> None:
    """Zero norms have no ratio; a quotient beyond float64 is its largest number."""
    assert summarize([measure(0.0, 0), measure(2.0), measure(6.0)], [10] * 3).norm_ratio == 3.0
    assert summarize([measure(0.0, 0)], [10]).norm_ratio == 1.0
    assert summarize([measure(1e300), measure(1e-300)], [10] * 2).norm_ratio == sys.float_info.max


def test_names_and_numbers_for_a_logger() -> None:
    """One flat dictionary of numbers, each after the prefix; norms by name, or by place where there is none."""
    stats = summarize([measure(3.0), measure(4.0)], [10, 10], ["weight", ""])
    assert stats.norms == {"weight": 3.0, "1": 4.0}
    logged = stats.as_dict("gradients/", per_tensor=True)
    assert (logged["gradients/total_norm"], logged["gradients/norm/weight"], logged["gradients/norm/1"]) == (5, 3, 4)
    assert all(isinstance(value, int | float) for value in logged.values())
    assert len(logged) == len(stats.as_dict()) + 2
    ratio = DualGradientStats(stats, stats).as_dict("g/")
    assert (ratio["g/host/total_norm"], ratio["g/seed/tensor_count"], ratio["g/normalized_ratio"]) == (5.0, 2, 1.0)


def test_a_line_shows_statistics() -> None:
    """The norm, how many tensors, their health, and what is wrong."""
    assert repr(summarize([measure(3.0)] * 2, [10] * 2)) == "GradientStats(total_norm=4.24264, 2 tensors, health=1.00)"
    bad = repr(summarize([measure(3.0, nan_count=2)] * 500, [10] * 500))
    assert bad == "GradientStats(total_norm=nan, 500 tensors, health=0.00, 1000 NaN)"
