"""What probes of spectra and of shard plans ask: factors, echoes, alignment, shares of keys."""

from typing import Any, Dict, List, Optional, Sequence

import torch

from ..answers.factors import ECHO, as_svd, read_factors, tensor_parts
from ..answers.shards import owned_keys
from ..base.refusals import NotApplicable
from ..gradients import matrices
from ..gradients.forms import ShardCase
from ..gradients.matrices import Svd
from ..simulated.tensor import to_host
from .calls import Calls


class Spectra:
    """The target as a decomposition, an echo, or a plan. Gradients are a list of one (R, N, M) batch."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def factors(self, grads: Sequence[Any]) -> Dict[str, torch.Tensor]:
        """`left` (R, N, K), `svals` (R, K) and `right` (R, M, K) in float64, where the answer has them."""
        return read_factors(self._calls.raw(grads), self._calls.roles, grads[0].shape[0])

    def svals_part(self, grads: Sequence[Any]) -> Optional[torch.Tensor]:
        """The singular values as the target returns them; None where it returns none."""
        if "svals" not in self._calls.roles:
            return None
        return tensor_parts(self._calls.raw(grads), grads[0].shape[0]).get(self._calls.roles["svals"].path)

    def echoes(self, grads: Sequence[Any]) -> torch.Tensor:
        """The echoes as the target returns them, (D,) or one for each replica too."""
        found = tensor_parts(self._calls.raw(grads), grads[0].shape[0]).get(self._calls.role(ECHO).path)
        return torch.full((1,), float("nan")) if found is None else found.double()

    # --- alignment -------------------------------------------------------------------------------

    def alignment_scores(self, grads: Sequence[Any]) -> Dict[str, List[float]]:
        """(score, optimum) of the answer against each thing it may be aligned to, averaged over directions.

        The score of a direction is |<u, u_ref>| |<v, v_ref>|; the optimum is that of the best assignment of the
        same directions. Raises NotApplicable where the answer has no vectors on both sides.
        """
        found = as_svd(self.factors(grads))
        if found is None:
            raise NotApplicable("its answer has no singular vectors on both sides")
        batch = to_host(grads[0]).cpu().double()
        references = {
            "its first replica": Svd(*(part[0] for part in found)),
            "the mean gradient": matrices.decomposed(batch.mean(0)),
            "the mean of the first half": matrices.decomposed(batch[: len(batch) // 2].mean(0)),
        }
        return {name: list(_scores(found, reference)) for name, reference in references.items()}

    # --- shard plans -----------------------------------------------------------------------------

    def share(self, key_count: int, rank: int, world_size: int, salt: int = 0) -> List[Any]:
        """The keys of one rank, by index where they are keys that were handed over. Raises TargetRaised."""
        case = ShardCase(key_count, rank, world_size, salt)
        answer = self._calls.raw([case])
        with self._calls.target_errors():
            found = owned_keys(answer, case)
        return found.keys

    @property
    def plan_names_ranks(self) -> bool:
        """Whether a shard plan is told how many ranks there are; else it asks the process group."""
        return "world_size" in self._calls.plan.feed.forms

    def answer_bytes(self, grads: Sequence[Any]) -> int:
        """Bytes of the tensors that one answer holds."""
        parts = tensor_parts(self._calls.raw(grads), grads[0].shape[0]).values()
        return sum(part.numel() * part.element_size() for part in parts)


def _scores(found: Svd, reference: Svd) -> Any:
    """The mean over the directions of all replicas but the reference itself: as returned, and at best."""
    kept = found.left.shape[2]
    cut = Svd(reference.left[:, :kept], reference.svals[:kept], reference.right[:, :kept])
    actual, best, directions = 0.0, 0.0, 0
    for each in map(Svd, *found):
        scores = matrices.similarity(each, cut)
        if torch.equal(each.left, cut.left):
            continue
        order = matrices.best_assignment(scores)
        actual += float(scores.diagonal().sum())
        best += float(scores[order, range(kept)].sum())
        directions += kept
    return actual / max(1, directions), best / max(1, directions)
