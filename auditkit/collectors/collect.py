"""Collects statistics of one set of gradients: enqueue now, read once later."""

from dataclasses import dataclass

from .pending import PendingSets, collect_sets
from .sources import GradientSource
from .statistics import GradientStats


@dataclass(frozen=True, slots=True)
class PendingGradientStats:
    """Statistics that the device may still be computing."""

    _sets: PendingSets

    def materialize(self) -> GradientStats:
        """Return the statistics, waiting for them: one device-to-host copy per device.

        Every call reads the device anew, so that a captured CUDA graph may be replayed in between.
        """
        return self._sets.materialize()[0]


def collect_gradients(parameters_or_gradients: GradientSource) -> PendingGradientStats:
    """Start computing the statistics of gradients as they are now, and read nothing back from the device.

    Takes a module, parameters (each stands for its .grad), gradients, or (name, tensor) pairs, in any
    iterable, which is consumed once. Gradients may be None, of several dtypes and devices, non-contiguous,
    sparse, complex, empty, or DTensor (every rank of the mesh must then call this); they are not modified
    and not kept. CPU gradients are measured before this returns. One exception to "nothing": torch's
    coalesce() of an uncoalesced sparse CUDA gradient synchronizes.

    Raises ValueError, naming the tensor, for what is not supported.
    """
    return PendingGradientStats(collect_sets([parameters_or_gradients]))


def compute_total_norm(parameters_or_gradients: GradientSource) -> float | None:
    """Return the L2 norm of all gradients together, or None where there is none: one read-back per device.

    NaN with any NaN, else inf with any Inf. Raises ValueError as `collect_gradients` does.
    """
    stats = collect_gradients(parameters_or_gradients).materialize()
    return stats.total_norm if stats.tensor_count else None
