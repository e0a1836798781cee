"""Norms of a frozen host and of the seed that grows in it: collected on the device, read back together."""

from dataclasses import dataclass

import torch

from wired.norms import stacked_norms


@dataclass
class DualNorms:
    """Both norms, with the sizes that make them comparable."""

    host_norm: float
    host_size: int
    seed_norm: float
    seed_size: int

    @property
    def ratio(self) -> float:
        """The seed's norm over the host's, each for one parameter; 0 where either has none."""
        if not (self.host_norm and self.host_size and self.seed_size):
            return 0.0
        return (self.seed_norm / self.seed_size**0.5) / (self.host_norm / self.host_size**0.5)


def collect_dual_norms_async(host_grads: list, seed_grads: list) -> dict:
    """Both groups' norms on the device: nothing is read back before `materialize_dual_norms`."""
    norms = [stacked_norms(grads).pow(2).sum() if grads else torch.zeros(()) for grads in (host_grads, seed_grads)]
    return {
        "squared": torch.stack(norms),
        "host_size": sum(grad.numel() for grad in host_grads),
        "seed_size": sum(grad.numel() for grad in seed_grads),
    }


def materialize_dual_norms(pending: dict) -> DualNorms:
    """The numbers of both groups, in one copy, after the stream has been waited for."""
    host_squared, seed_squared = pending["squared"].tolist()
    return DualNorms(host_squared**0.5, pending["host_size"], seed_squared**0.5, pending["seed_size"])
