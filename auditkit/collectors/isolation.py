"""Watches that training one module leaves another, frozen one without gradients."""

from torch import nn

from .dual import DualGradientStats, collect_dual_gradients

# Any gradient that is not zero is a leak.
ISOLATION_NORM_THRESHOLD = 0.0


class GradientIsolationMonitor:
    """Tells whether gradients reach a host module that should get none while a seed module trains.

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
