"""Collects statistics of one set of gradients: enqueue now, read once later."""

from dataclasses import dataclass

from torch import Tensor

from .pending import Backend, PendingSets, measure_sets
from .sources import GradientSource, select_gradients
from .statistics import EXPLODING_NORM_THRESHOLD, VANISHING_NORM_THRESHOLD, GradientStats, NormThresholds


@dataclass(frozen=True, slots=True)
class PendingGradientStats:
    """Statistics that the device may still be computing."""

    _sets: PendingSets
    _thresholds: NormThresholds

    def __repr__(self) -> str:
        return f"PendingGradientStats({self._sets})"

    @property
    def total_norm(self) -> Tensor:
        """The total norm as a 0-d float64 tensor on the gradients' device; nothing is read back.

        As `GradientStats.total_norm`, 0.0 on the CPU for no gradients. float64 holds the norm of every float32
        gradient, and multiplies float32 tensors without changing their type. Of several devices, it lies on the first
        that is no CPU. Computed anew each time, so that a captured CUDA graph may be replayed in between.
        """
        return self._sets.total_norm(0)

    def materialize(self) -> GradientStats:
        """Return the statistics, waiting for them: one device-to-host copy per device.

        Every call reads the device anew, so that a captured CUDA graph may be replayed in between.
        """
        return self._sets.materialize(self._thresholds)[0]


def collect_gradients(
    parameters_or_gradients: GradientSource,
    *,
    vanishing_norm: float = VANISHING_NORM_THRESHOLD,
    exploding_norm: float = EXPLODING_NORM_THRESHOLD,
    backend: Backend = "auto",
) -> PendingGradientStats:
    """Start computing the statistics of gradients as they are now, and read nothing back from the device.

    Takes a module, parameters (each stands for its .grad), gradients, or (name, tensor) pairs, in any
    iterable, which is consumed once. Gradients may be None, of several dtypes and devices, non-contiguous,
    sparse, complex, empty, or DTensor (every rank of the mesh must then call this); they are not modified
    and not kept. CPU gradients are measured before this returns. One exception to "nothing": torch's
    coalesce() of an uncoalesced sparse CUDA gradient synchronizes. Names are kept: of a module's parameters and
    of pairs. A gradient tensor vanishes with a norm below `vanishing_norm` and explodes above `exploding_norm`.
    CUDA gradients are measured by two Triton kernels where these run, else by torch's operators, which take 130 times
    as long for 124M float32 elements (NVIDIA H200); `backend="torch"` or "triton" demands one of them.

    Raises ValueError, naming the tensor, for what is not supported, and RuntimeError where the kernels cannot run.
    """
    gradients = select_gradients(parameters_or_gradients)
    return PendingGradientStats(measure_sets([gradients], backend), NormThresholds(vanishing_norm, exploding_norm))


def compute_total_norm(parameters_or_gradients: GradientSource) -> float | None:
    """Return the L2 norm of all gradients together, or None where there is none: one read-back per device.

    NaN with any NaN, else inf with any Inf. Raises ValueError as `collect_gradients` does.
    """
    stats = collect_gradients(parameters_or_gradients).materialize()
    return stats.total_norm if stats.tensor_count else None
