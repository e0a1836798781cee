"""Norms of a frozen host and of the seed that grows in it: the half that reads them back."""

from dataclasses import dataclass


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


def materialize_dual_norms(pending: dict) -> DualNorms:
    """The numbers of both groups, after the stream has been waited for."""
    return DualNorms(
        host_norm=pending["host_squared"].item() ** 0.5,
        host_size=pending["host_size"],
        seed_norm=pending["seed_squared"].item() ** 0.5,
        seed_size=pending["seed_size"],
    )
