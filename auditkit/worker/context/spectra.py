"""Measurements of spectra and shard plans: factors, echoes, alignment, shares of keys."""

from typing import Any, Dict, Iterator, List, Optional, Sequence

import torch

from ..answers.factors import ECHO, as_svd, read_factors, tensor_parts
from ..base.refusals import NotApplicable
from ..feed.spectral_search import owned_keys
from ..gradients import matrices
from ..gradients.forms import ShardCase, work
from ..gradients.matrices import Svd
from ..simulated.tensor import to_host
from .calls import Calls


class Spectra:
    """The target as a decomposition, an echo, or a plan. Gradients are a list of one (R, N, M) batch."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.plan_names_ranks = "world_size" in calls.plan.feed.forms
        """Whether a shard plan takes the number of ranks; otherwise it reads the process group."""

    def factors(self, grads: Sequence[Any]) -> Dict[str, torch.Tensor]:
        """Return `left` (R, N, K), `svals` (R, K) and `right` (R, M, K) in float64, if the result has them."""
        return read_factors(self._calls.raw(grads), self._calls.roles, grads[0].shape[0])

    def parts(self, grads: Sequence[Any]) -> Dict[str, torch.Tensor]:
        """Return the tensors of one result, by path."""
        return tensor_parts(self._calls.raw(grads), grads[0].shape[0])

    def svals_part(self, grads: Sequence[Any]) -> Optional[torch.Tensor]:
        """Return the singular values as the target returns them; None if it returns none."""
        return self.parts(grads).get(self._calls.roles["svals"].path) if "svals" in self._calls.roles else None

    def echoes(self, grads: Sequence[Any]) -> torch.Tensor:
        """Return the echoes as the target returns them, (D,) or one for each replica too."""
        found = self.parts(grads).get(self._calls.role(ECHO).path)
        return torch.full((1,), float("nan")) if found is None else found.double()

    def alignment_scores(self, grads: Sequence[Any]) -> Dict[str, List[float]]:
        """Return (score, optimum) of the result against each possible reference, averaged over directions.

        The score of a direction is |<u, u_ref>| |<v, v_ref>|; the optimum is that of the best assignment of the same
        directions. Raises NotApplicable if the result has no vectors on both sides.
        """
        found = as_svd(self.factors(grads))
        if found is None:
            raise NotApplicable("its result has no singular vectors on both sides")
        batch = to_host(grads[0]).cpu().double()
        references = {
            "its first replica": Svd(*(part[0] for part in found)),
            "the mean gradient": matrices.decomposed(batch.mean(0)),
            "the mean of the first half": matrices.decomposed(batch[: len(batch) // 2].mean(0)),
        }
        return {name: list(_scores(found, reference)) for name, reference in references.items()}

    def share(self, key_count: int, rank: int, world_size: int, salt: int = 0) -> List[Any]:
        """Return the keys of one rank, by index if they are given keys. Raises TargetRaised."""
        case = ShardCase(key_count, rank, world_size, salt)
        answer = self._calls.raw([case])
        with self._calls.target_errors():
            return owned_keys(answer, case).keys

    @staticmethod
    def work_of(keys: Sequence[int]) -> int:
        """Return the number of elements of the matrices of these keys."""
        return sum(8 * work(key) for key in keys)


def _scores(found: Svd, reference: Svd) -> Iterator[float]:
    """Yield the mean score over all directions except the reference's own: as returned, and at best."""
    kept = found.left.shape[2]
    cut = Svd(reference.left[:, :kept], reference.svals[:kept], reference.right[:, :kept])
    actual, best, directions = 0.0, 0.0, 0
    for each in map(Svd, *found):
        if not torch.equal(each.left, cut.left):
            scores = matrices.similarity(each, cut)
            actual += float(scores.diagonal().sum())
            best += float(scores[matrices.best_assignment(scores), range(kept)].sum())
            directions += kept
    yield from (actual / max(1, directions), best / max(1, directions))
