"""What a target did to the gradients that it was given: clipping is told by its effect.

A clipping target multiplies every gradient by one factor below 1, a smaller one the larger the gradients
are. Where it changes them in another way (each element, each layer, a constant scale), its name decides.
"""

import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from ..base.torch_internals import raise_if_out_of_memory
from ..gradients.gradients import benign
from ..simulated.tensor import to_host
from .caller import GroupInput

_NAME = re.compile(r"clip|scale|normali[sz]e", re.IGNORECASE)
# A limit that ordinary gradients do not reach is met by a thousand or a billion times their norm.
_SCALES = (2.0**0, 2.0**10, 2.0**30)
_TOLERANCE = 1e-3
AFTER = "gradients_after.norm"
"""The field of the answer that stands for the effect of a target that returns no number."""

Grads = Sequence[Optional[torch.Tensor]]


class Effect(NamedTuple):
    """Whether any gradient changed, and the one factor by which all of them did (None: by no one factor)."""

    changed: bool
    factor: Optional[float]


def gradients_now(given: GroupInput) -> List[Optional[torch.Tensor]]:
    """The gradients of a group as they are now: of the module's parameters, or of the list that was handed over."""
    if given.module is not None:
        return [parameter.grad for parameter in given.module.parameters()]
    return list(given.listed or ())


def change(before: Grads, after: Grads) -> Effect:
    """Compare gradients before and after a call; both on the host, in the same order."""
    if len(before) != len(after):
        return Effect(True, None)
    pairs = list(zip(before, after, strict=True))
    if any(first is None or second is None or first.shape != second.shape for first, second in pairs):
        lost = any((first is None) != (second is None) for first, second in pairs)
        return Effect(lost, None)
    old = torch.cat([first.double().reshape(-1) for first, _ in pairs if first is not None])
    new = torch.cat([second.double().reshape(-1) for _, second in pairs if second is not None])
    if bool(torch.equal(old, new)):
        return Effect(False, 1.0)
    factor = float(torch.dot(old, new) / torch.dot(old, old))
    is_common = bool(((new - factor * old).abs() <= _TOLERANCE * abs(factor) * old.abs()).all())
    return Effect(True, factor if is_common and factor == factor else None)


def clips(apply: Callable[[List[torch.Tensor]], Grads], name: str) -> bool:
    """Whether a target clips gradients; `apply` calls it on some and returns them as they are afterwards."""
    changes: Dict[float, Effect] = {}
    for scale in _SCALES:
        before = [grad * scale for grad in benign()]
        try:
            changes[scale] = change([grad.clone() for grad in before], on_host(apply(before)))
        except Exception as error:
            raise_if_out_of_memory(error)
            continue
    factors = [each.factor for each in changes.values()]
    known = [factor for factor in factors if factor is not None]
    if len(known) > 1 and 0 < known[-1] < 1 and known[-1] < 0.99 * known[0]:
        return True
    return bool(_NAME.search(name)) and any(each.changed for each in changes.values())


def on_host(grads: Grads) -> List[Optional[torch.Tensor]]:
    """The gradients as dense tensors on the host, without their graph."""
    return [None if grad is None else _dense(to_host(grad.detach())).cpu() for grad in grads]


def _dense(grad: torch.Tensor) -> torch.Tensor:
    return grad if grad.layout is torch.strided else grad.to_dense()


def effect(given: Sequence[GroupInput]) -> Dict[str, Any]:
    """The norm of the first group's gradients after the call, as the answer of a target that returns no number."""
    flat = [grad.double().reshape(-1) for grad in on_host(gradients_now(given[0])) if grad is not None]
    return {AFTER: float(torch.linalg.vector_norm(torch.cat(flat))) if flat else 0.0}
