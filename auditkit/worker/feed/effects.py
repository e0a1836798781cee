"""What a target does to its gradients, and whether that is its purpose.

Judged by behaviour, see docs/design/effects.md: limiting shrinks larger gradients more, and keeps their direction, or
the elements within the limit; scaling follows an argument; thinning zeros the small elements. A statistic that uses the
gradients' own memory does none of this: `abs_`, `square_`, `nan_to_num_`.
"""

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from ..base.torch_internals import raise_if_out_of_memory
from ..gradients.gradients import benign
from ..simulated.tensor import to_host
from .given import GroupInput

# If ordinary gradients do not reach a limit, a thousand or a billion times their norm does.
_SCALES = (2.0**0, 2.0**10, 2.0**30)
_TOLERANCE = 1e-3
AFTER = "gradients_after.norm"
"""The result's field for the effect of a target that returns no number."""

SAME, SCALED, CLAMPED, THINNED, ZEROED, REMOVED, OTHER = (
    "same", "scaled", "clamped", "thinned", "zeroed", "removed", "other",
)  # fmt: skip
Grads = Sequence[Optional[torch.Tensor]]
Apply = Callable[[List[torch.Tensor]], Grads]


class Effect(NamedTuple):
    """The `form` of a change, the factor of the norm, and the common factor of all tensors (None: there is none)."""

    form: str
    shrinking: float = 1.0
    factor: Optional[float] = None


class Effects(NamedTuple):
    """The effects on finite gradients, smallest first, and on non-finite ones; None if it raised."""

    ordinary: List[Effect]
    nonfinite: Optional[Effect]

    @property
    def forms(self) -> List[str]:
        """Every form of change of finite gradients."""
        return sorted({effect.form for effect in self.ordinary} - {SAME})

    @property
    def limits(self) -> bool:
        """Whether it shrinks larger gradients more, and keeps their direction."""
        if not self.forms or not {SCALED, CLAMPED}.issuperset(self.forms):
            return False
        first, last = self.ordinary[0].shrinking, self.ordinary[-1].shrinking
        return 0 < last < 1 and last < 0.99 * first

    @property
    def scales(self) -> bool:
        """Whether it multiplies all gradients by the same factor."""
        factors = [effect.factor for effect in self.ordinary if effect.factor is not None]
        is_everywhere = self.forms == [SCALED] and len(factors) == len(self.ordinary)
        return is_everywhere and max(factors) - min(factors) <= _TOLERANCE * max(factors)

    @property
    def is_an_answer(self) -> bool:
        """Whether the effect is the result of a target that returns no number.

        The target limits or scales gradients, or changes only non-finite ones.
        """
        cleans = not self.forms and self.nonfinite is not None and self.nonfinite.form != SAME
        return self.limits or self.scales or cleans


def observe(apply: Apply) -> Effects:
    """Return the effects of a target; `apply` calls it on gradients and returns them afterwards."""
    ordinary = [_effect(apply, [grad * scale for grad in benign()]) for scale in _SCALES]
    return Effects([each for each in ordinary if each is not None], _effect(apply, benign(nans=1, infs=1)))


def _effect(apply: Apply, grads: List[torch.Tensor]) -> Optional[Effect]:
    before = [grad.clone() for grad in grads]
    try:
        return change(before, on_host(apply(grads)))
    except Exception as error:
        raise_if_out_of_memory(error)
        return None


def change(before: Grads, after: Grads) -> Effect:
    """Compare gradients before and after a call; both on the host, in the same order."""
    if len(before) != len(after) or any(second is None for second in after):
        return Effect(REMOVED)
    pairs = [_flat(first, second) for first, second in zip(before, after, strict=True) if first is not None]
    if any(len(old) != len(new) for old, new in pairs):
        return Effect(OTHER)
    old, new = (torch.cat(side) for side in zip(*pairs, strict=True))
    form = next(form for form, holds in _FORMS if all(holds(*pair) for pair in pairs))
    if form == OTHER and all(_factor(*row) is not None for row in _rows(before, after)):
        form = SCALED
    return Effect(form, float(new.norm() / old.norm()), _factor(old, new))


def _rows(before: Grads, after: Grads) -> List[Any]:
    """Return the rows of matrices, and whole vectors: adaptive clipping limits each of them."""
    pairs: List[Any] = [(first, second) for first, second in zip(before, after, strict=True) if first is not None]
    return [
        _flat(*row)
        for first, second in pairs
        for row in (zip(first, second, strict=True) if first.dim() > 1 else [(first, second)])
    ]


def _flat(first: torch.Tensor, second: Optional[torch.Tensor]) -> Any:
    return first.double().reshape(-1), second.double().reshape(-1) if second is not None else None


def _is_same(old: torch.Tensor, new: torch.Tensor) -> bool:
    return bool(((old == new) | (old.isnan() & new.isnan())).all())


def _factor(old: torch.Tensor, new: torch.Tensor) -> Optional[float]:
    """Return the common positive factor of all elements; None if there is none."""
    factor = float(torch.dot(old, new) / torch.dot(old, old))
    is_common = bool(((new - factor * old).abs() <= _TOLERANCE * abs(factor) * old.abs()).all())
    return factor if is_common and factor > 0 and math.isfinite(factor) else None


def _is_clamped(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Return whether elements beyond a limit (one per sign) became that limit, and the others did not change."""
    beyond = old != new
    shrank = (new.sign() == old.sign()) & (new.abs() < old.abs())
    return bool(shrank[beyond].all()) and len(new[beyond].unique()) <= 2


def _is_thinned(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Return whether the smallest elements became 0, and the others did not change."""
    kept = old == new
    if not bool((new[~kept] == 0).all()):
        return False
    return bool(kept.all()) or not bool(kept.any()) or bool(old[~kept].abs().max() <= old[kept].abs().min())


_FORMS = (
    (SAME, _is_same),
    (SCALED, lambda old, new: _factor(old, new) is not None),
    (CLAMPED, _is_clamped),
    (ZEROED, lambda old, new: not bool(new.any())),
    (THINNED, _is_thinned),
    (OTHER, lambda old, new: True),
)


def gradients_now(given: GroupInput) -> List[Optional[torch.Tensor]]:
    """Return the current gradients of a group: those of the module's parameters, or the list's items."""
    if given.module is not None:
        return [parameter.grad for parameter in given.module.parameters()]
    return list(given.listed or ())


def on_host(grads: Grads) -> List[Optional[torch.Tensor]]:
    """Return the gradients as dense tensors on the host, detached from their graph."""
    return [None if grad is None else _dense(to_host(grad.detach())).cpu() for grad in grads]


def _dense(grad: torch.Tensor) -> torch.Tensor:
    return grad if grad.layout is torch.strided else grad.to_dense()


def effect(given: Sequence[GroupInput]) -> Dict[str, Any]:
    """Return the norm of the first group's gradients after the call: the result of a target that returns no number."""
    flat = [grad.double().reshape(-1) for grad in on_host(gradients_now(given[0])) if grad is not None]
    return {AFTER: float(torch.linalg.vector_norm(torch.cat(flat))) if flat else 0.0}
