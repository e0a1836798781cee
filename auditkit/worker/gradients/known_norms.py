"""Gradients whose exact 2-norm is known: the oracle of the accuracy probes.

All elements are positive, so that their mean, sum and maximum are well conditioned too.
"""

import math
from fractions import Fraction
from typing import Callable, Dict, List, NamedTuple

import torch

from .gradients import DTYPES, empty

_MIXED = ("float32", "bfloat16")
_SEED = 20
_BLOCK_ELEMENTS = 1 << 16


class KnownNorm(NamedTuple):
    """Gradients on the CPU, and the exact 2-norm of all their elements after rounding to the dtype."""

    grads: List[torch.Tensor]
    norm: float


def known_norm(pattern: str, tensors: int, elements: int, dtype: str, magnitude: float) -> KnownNorm:
    """Return `tensors` gradients of `elements` elements; `dtype` "mixed" alternates float32 and bfloat16.

    `pattern`: `random` (half-normal times `magnitude`), `spread` (between a half and one and a half times `magnitude`),
    `equal` (every element is `magnitude`), `outlier_element` (the first element alone weighs as much as all the rest),
    `outlier_tensor` (the first tensor does).
    """
    dtypes = [dtype if dtype != "mixed" else _MIXED[index % 2] for index in range(tensors)]
    if pattern in _DISTRIBUTIONS:
        return _drawn(_DISTRIBUTIONS[pattern], dtypes, elements, magnitude)
    leading = {"equal": 0, "outlier_element": 1, "outlier_tensor": elements}[pattern]  # elements of the outlier
    outlier = magnitude * math.sqrt((tensors * elements - leading) / leading) if leading else magnitude
    squares, grads = Fraction(0), []
    for index, own_dtype in enumerate(dtypes):
        grad, flat = empty(elements, DTYPES[own_dtype])
        flat.fill_(magnitude)
        count = 0 if index else leading
        flat[:count] = outlier
        grads.append(grad)
        squares += sum(n * Fraction(v.item()) ** 2 for n, v in ((count, flat[0]), (elements - count, flat[-1])))
    return KnownNorm(grads, math.sqrt(squares))


def _drawn(draw: Callable[..., torch.Tensor], dtypes: List[str], elements: int, magnitude: float) -> KnownNorm:
    """Return random gradients and their norm, exact to 1e-15 by `math.fsum`. Large tensors repeat a block."""
    generator = torch.Generator().manual_seed(_SEED)
    grads, sums = [], []
    for dtype in dtypes:
        block = draw(min(elements, _BLOCK_ELEMENTS), generator=generator, dtype=torch.float64).mul_(magnitude)
        grad, flat = empty(elements, DTYPES[dtype])
        for piece in flat.split(_BLOCK_ELEMENTS):
            piece.copy_(block[: piece.numel()])
        grads.append(grad)
        squares = flat[: block.numel()].double().square().tolist()
        times, rest = divmod(elements, len(squares))
        sums += [times * math.fsum(squares), math.fsum(squares[:rest])]
    return KnownNorm(grads, math.sqrt(math.fsum(sums)))


_DISTRIBUTIONS: Dict[str, Callable[..., torch.Tensor]] = {
    "random": lambda elements, **how: torch.randn(elements, **how).abs_(),
    "spread": lambda elements, **how: torch.rand(elements, **how).add_(0.5),
}


def regrouped(grads: List[torch.Tensor], sizes: List[int]) -> List[torch.Tensor]:
    """Return all elements in the same order, as tensors of `sizes` elements each."""
    return list(torch.cat([grad.reshape(-1) for grad in grads]).split(sizes))
