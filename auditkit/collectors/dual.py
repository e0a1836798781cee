"""Gradient statistics of two groups, a host model and a seed grafted onto it, in one pass, and their isolation."""

import math
import sys
from dataclasses import dataclass

from torch import nn

from .pending import Backend, PendingSets, measure_sets
from .sources import GradientSource, select_gradients
from .statistics import EXPLODING_NORM_THRESHOLD, VANISHING_NORM_THRESHOLD, GradientStats, NormThresholds

# Any gradient that is not zero is a leak.
ISOLATION_NORM_THRESHOLD = 0.0


@dataclass(frozen=True, slots=True)
class DualGradientStats:
    """Statistics of the host's and the seed's gradients."""

    host: GradientStats
    seed: GradientStats

    @property
    def host_norm(self) -> float:
        """Total norm of the host's gradients."""
        return self.host.total_norm

    @property
    def seed_norm(self) -> float:
        """Total norm of the seed's gradients."""
        return self.seed.total_norm

    @property
    def ratio_is_defined(self) -> bool:
        """Whether both groups have a norm above zero, so that their ratio means something."""
        return self.host_norm > 0.0 and self.seed_norm > 0.0

    @property
    def normalized_ratio(self) -> float:
        """Root mean square of the seed's gradient elements over that of the host's.

        seed_norm / sqrt(seed count) / (host_norm / sqrt(host count)): the norm of n independent elements of
        equal variance grows as sqrt(n), so groups of any size compare. Finite for all finite gradients: 0.0
        where a norm or a count is zero (see `ratio_is_defined`). NaN with NaN or Inf in either group.
        """
        if not (math.isfinite(self.host_norm) and math.isfinite(self.seed_norm)):
            return math.nan
        if not self.ratio_is_defined:
            return 0.0
        # The norms are divided first: a subnormal norm over sqrt(count) could become zero.
        count_ratio = self.host.element_count / self.seed.element_count
        return min(self.seed_norm / self.host_norm * math.sqrt(count_ratio), sys.float_info.max)

    def as_dict(self, prefix: str = "", *, per_tensor: bool = False) -> dict[str, float]:
        """Return the numbers of both groups after `host/` and `seed/`, and their ratio, for a logger."""
        host = self.host.as_dict(f"{prefix}host/", per_tensor=per_tensor)
        seed = self.seed.as_dict(f"{prefix}seed/", per_tensor=per_tensor)
        return host | seed | {f"{prefix}normalized_ratio": self.normalized_ratio}


@dataclass(frozen=True, slots=True)
class PendingDualGradientStats:
    """Statistics of two groups that the device may still be computing."""

    _sets: PendingSets
    _thresholds: NormThresholds

    def __repr__(self) -> str:
        return f"PendingDualGradientStats({self._sets})"

    def materialize(self) -> DualGradientStats:
        """Return both statistics: one device-to-host copy per device for both groups together."""
        host, seed = self._sets.materialize(self._thresholds)
        return DualGradientStats(host, seed)


def collect_dual_gradients(
    host: GradientSource,
    seed: GradientSource,
    *,
    vanishing_norm: float = VANISHING_NORM_THRESHOLD,
    exploding_norm: float = EXPLODING_NORM_THRESHOLD,
    backend: Backend = "auto",
) -> PendingDualGradientStats:
    """Start computing the statistics of two groups of gradients; see `collect_gradients`."""
    sets = measure_sets([select_gradients(host), select_gradients(seed)], backend)
    return PendingDualGradientStats(sets, NormThresholds(vanishing_norm, exploding_norm))


class GradientIsolationMonitor:
    """Check that no gradients reach a host module while a seed module trains.

    `isolation_norm` is the largest total norm of the host's gradients that still counts as none.
    """

    def __init__(self, isolation_norm: float = ISOLATION_NORM_THRESHOLD) -> None:
        self._isolation_norm = isolation_norm
        self._modules: tuple[nn.Module, nn.Module] | None = None

    def register(self, host_module: nn.Module, seed_module: nn.Module) -> None:
        """Watch these two modules; the seed may be a part of the host, and is then left out of it."""
        self._modules = (host_module, seed_module)

    def check_isolation(self) -> tuple[bool, DualGradientStats]:
        """Return whether the host gets no gradients, by default none but zeros, and the statistics of both groups.

        A host with NaN or Inf gradients is not isolated. One device-to-host copy per device. Raises
        RuntimeError before `register`.
        """
        if self._modules is None:
            raise RuntimeError("no modules to check; call register(host_module, seed_module) first")
        host_module, seed_module = self._modules
        seed_ids = {id(parameter) for parameter in seed_module.parameters()}
        host = [pair for pair in host_module.named_parameters() if id(pair[1]) not in seed_ids]
        stats = collect_dual_gradients(host, seed_module).materialize()
        # A NaN norm compares false.
        return stats.host_norm <= self._isolation_norm, stats
