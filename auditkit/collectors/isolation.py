"""Watches that training one module leaves another, frozen one without gradients."""

from torch import nn

from .dual import DualGradientStats, collect_dual_gradients

# The largest total norm that still counts as no gradient. Any gradient that is not zero is a leak.
ISOLATION_NORM_THRESHOLD = 0.0


class GradientIsolationMonitor:
    """Tells whether gradients reach a host module that should get none while a seed module trains."""

    def __init__(self) -> None:
        self._modules: tuple[nn.Module, nn.Module] | None = None

    def register(self, host_module: nn.Module, seed_module: nn.Module) -> None:
        """Watch these two modules; the seed may be a part of the host, and is then left out of it."""
        self._modules = (host_module, seed_module)

    def check_isolation(self) -> tuple[bool, DualGradientStats]:
        """Return whether the host's gradients are all zero or None, and the statistics of both groups.

        A host with NaN or Inf gradients is not isolated. One device-to-host copy per device. Raises
        RuntimeError before `register`.
        """
        if self._modules is None:
            raise RuntimeError("no modules to check; call register(host_module, seed_module) first")
        host_module, seed_module = self._modules
        seed = list(seed_module.parameters())
        seed_ids = {id(parameter) for parameter in seed}
        host = [parameter for parameter in host_module.parameters() if id(parameter) not in seed_ids]
        stats = collect_dual_gradients(host, seed).materialize()
        # A NaN norm compares false.
        return stats.host_norm <= ISOLATION_NORM_THRESHOLD, stats
