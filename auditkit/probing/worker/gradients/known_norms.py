"""Gradients whose exact 2-norm is known: the oracle of the accuracy probes.

All elements are positive, so that a mean, a sum or a largest element of them is well conditioned too.
"""

import math
from fractions import Fraction
from typing import Callable, Dict, List, NamedTuple, Tuple

import torch

from .gradients import DTYPES, empty

_MIXED = ("float32", "bfloat16")
_SEED = 20
_BLOCK_ELEMENTS = 1 << 16
Draw = Callable[[int, torch.Generator], torch.Tensor]
Run = Tuple[int, float]
"""So many elements of this value, one after another."""


class KnownNorm(NamedTuple):
    """Gradients on the CPU, and the exact 2-norm of all their elements as they are after rounding to the dtype."""

    grads: List[torch.Tensor]
    norm: float


def known_norm(pattern: str, tensors: int, elements: int, dtype: str, magnitude: float) -> KnownNorm:
    """`tensors` gradients of `elements` elements; `dtype` "mixed" alternates float32 and bfloat16.

    `pattern`: `random` (half-normal times `magnitude`), `spread` (between a half and one and a half times
    `magnitude`), `equal` (every element is `magnitude`), `outlier_element` (the first element alone weighs as much
    as all the rest), `outlier_tensor` (the first tensor does).
    """
    dtypes = [dtype if dtype != "mixed" else _MIXED[index % 2] for index in range(tensors)]
    if pattern in _DISTRIBUTIONS:
        return _drawn(_DISTRIBUTIONS[pattern], dtypes, elements, magnitude)
    runs = _PATTERNS[pattern](tensors, elements, magnitude)
    squares = Fraction(0)
    grads = []
    for own_runs, own_dtype in zip(runs, dtypes, strict=True):
        grad, flat = empty(elements, DTYPES[own_dtype])
        start = 0
        for count, value in own_runs:
            flat[start : start + count] = value
            squares += count * Fraction(flat[start].item()) ** 2
            start += count
        grads.append(grad)
    return KnownNorm(grads, math.sqrt(squares))


def _drawn(draw: Draw, dtypes: List[str], elements: int, magnitude: float) -> KnownNorm:
    """The exact norm to 1e-15: squares of at most 53 bits, added by `math.fsum`. Large tensors repeat a block."""
    generator = torch.Generator().manual_seed(_SEED)
    grads, sums = [], []
    for dtype in dtypes:
        block = draw(min(elements, _BLOCK_ELEMENTS), generator).mul_(magnitude)
        grad, flat = empty(elements, DTYPES[dtype])
        for piece in flat.split(_BLOCK_ELEMENTS):
            piece.copy_(block[: piece.numel()])
        grads.append(grad)
        squares = flat[: block.numel()].double().square().tolist()
        times, rest = divmod(elements, len(squares))
        sums += [times * math.fsum(squares), math.fsum(squares[:rest])]
    return KnownNorm(grads, math.sqrt(math.fsum(sums)))


def _half_normal(elements: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(elements, generator=generator, dtype=torch.float64).abs_()


def _around_one(elements: int, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(elements, generator=generator, dtype=torch.float64).add_(0.5)


_DISTRIBUTIONS: Dict[str, Draw] = {"random": _half_normal, "spread": _around_one}


def _equal(tensors: int, elements: int, magnitude: float) -> List[List[Run]]:
    return [[(elements, magnitude)]] * tensors


def _outlier_element(tensors: int, elements: int, magnitude: float) -> List[List[Run]]:
    outlier = magnitude * math.sqrt(tensors * elements - 1)
    return [[(1, outlier), (elements - 1, magnitude)], *_equal(tensors - 1, elements, magnitude)]


def _outlier_tensor(tensors: int, elements: int, magnitude: float) -> List[List[Run]]:
    outlier = magnitude * math.sqrt(tensors - 1)
    return [[(elements, outlier)], *_equal(tensors - 1, elements, magnitude)]


_PATTERNS: Dict[str, Callable[[int, int, float], List[List[Run]]]] = {
    "equal": _equal,
    "outlier_element": _outlier_element,
    "outlier_tensor": _outlier_tensor,
}


def regrouped(grads: List[torch.Tensor], sizes: List[int]) -> List[torch.Tensor]:
    """All elements in the same order, as tensors of `sizes` elements each (which add up to all of them)."""
    return list(torch.cat([grad.reshape(-1) for grad in grads]).split(sizes))
