"""Gradient cases: lists of tensors with a stated dtype, size, magnitude and pattern.

Values are `±magnitude` in a fixed alternation, so that a power-of-two magnitude scales every element
exactly, in every floating dtype, and the true norm is `magnitude * sqrt(elements)`.
"""

from typing import Any, List, Optional, Sequence

import torch

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}
_BLOCK_ELEMENTS = 1 << 16
_ROW_ELEMENTS = 64


def make_gradients(
    tensor_count: int, element_count: int, dtype: str = "float32", magnitude: float = 1.0
) -> List[torch.Tensor]:
    """`tensor_count` tensors of `element_count` elements each, all of them `±magnitude`.

    `dtype` "mixed" alternates float32 and bfloat16 (the same exponent range) and adds one all-zero
    float16 tensor, so that every group is there and the magnitude still scales the norm exactly.
    """
    if dtype == "mixed":
        pair = (torch.float32, torch.bfloat16)
        made = [_alternating(element_count, pair[i % 2], magnitude) for i in range(tensor_count)]
        return [*made, torch.zeros(_ROW_ELEMENTS, dtype=torch.float16)]
    return [_alternating(element_count, DTYPES[dtype], magnitude) for _ in range(tensor_count)]


def _alternating(element_count: int, dtype: torch.dtype, magnitude: float) -> torch.Tensor:
    block = torch.tensor([magnitude, -magnitude], dtype=dtype).repeat(min(_BLOCK_ELEMENTS, element_count) // 2 + 1)
    flat = torch.empty(element_count, dtype=dtype)
    for start in range(0, element_count, _BLOCK_ELEMENTS):
        piece = flat[start : start + _BLOCK_ELEMENTS]
        piece.copy_(block[: piece.numel()])
    return shaped(flat)


def shaped(flat: torch.Tensor) -> torch.Tensor:
    """A flat tensor as a weight matrix of 64 columns where that fits, else as it is."""
    rows, rest = divmod(flat.numel(), _ROW_ELEMENTS)
    return flat.view(rows, _ROW_ELEMENTS) if rest == 0 and rows > 1 else flat


def with_values(element_count: int, fill: float, special: float, special_count: int) -> torch.Tensor:
    """float32, `special_count` leading elements of `special`, the rest `fill`."""
    flat = torch.full((element_count,), fill)
    flat[:special_count] = special
    return shaped(flat)


def benign(seed: int = 0, zeros: int = 0, nans: int = 0, infs: int = 0) -> List[torch.Tensor]:
    """Three small float32 tensors of 46 elements in all, standard normal, with planted special values."""
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(shape, generator=generator) for shape in ((5, 3), (7,), (2, 3, 4))]
    flat = made[2].view(-1)
    flat[:zeros] = 0.0
    flat[zeros : zeros + nans] = float("nan")
    flat[zeros + nans : zeros + nans + infs] = float("inf")
    return made


def total_bytes(grads: Sequence[Any]) -> int:
    return sum(grad.numel() * grad.element_size() for grad in grads)


class GradientHolder(torch.nn.Module):
    """A module whose parameters carry the given gradients; parameters without one where `grads` has None."""

    def __init__(self, grads: Sequence[Optional[torch.Tensor]]) -> None:
        super().__init__()
        for index, grad in enumerate(grads):
            value = torch.zeros(3) if grad is None else _like(grad)
            parameter = torch.nn.Parameter(value)
            parameter.grad = grad
            self.register_parameter("layer{}_weight".format(index), parameter)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs


def _like(grad: torch.Tensor) -> torch.Tensor:
    """Zeros of the gradient's kind; zeroed pages of a large allocation cost no memory until touched."""
    return torch.zeros_like(grad)
