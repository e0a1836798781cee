"""Pieces of strided tensors hold every element once, and are views."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from auditkit.collectors.strided import flat_view, iter_pieces


@st.composite
def strided_tensors(draw: st.DrawFn) -> Tensor:
    """Views of distinct integers: permuted, sliced with steps, expanded."""
    shape = draw(st.lists(st.integers(0, 7), min_size=0, max_size=4))
    tensor = torch.arange(torch.Size(shape).numel(), dtype=torch.float64).view(shape)
    tensor = tensor.permute(draw(st.permutations(range(tensor.dim()))))
    for dim in range(tensor.dim()):
        start, step = draw(st.integers(0, 2)), draw(st.integers(1, 3))
        index = [slice(None)] * tensor.dim()
        index[dim] = slice(start, None, step)
        tensor = tensor[tuple(index)]
    if draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
    return tensor


@settings(deadline=None, max_examples=300)
@given(tensor=strided_tensors(), limit=st.integers(1, 40))
def test_pieces_hold_every_element_once(tensor: Tensor, limit: int) -> None:
    """The pieces' elements are the tensor's, none is longer than the limit, none is a copy."""
    pieces = list(iter_pieces(tensor, limit))
    assert all(0 < piece.numel() <= limit for piece in pieces)
    assert sorted(x for p in pieces for x in p.reshape(-1).tolist()) == sorted(tensor.reshape(-1).tolist())
    storage = tensor.untyped_storage().data_ptr()
    assert all(piece.untyped_storage().data_ptr() == storage for piece in pieces)


@pytest.mark.parametrize(
    ("tensor", "has_flat_view"),
    [
        (torch.zeros(()), True),
        (torch.zeros(2, 3).t(), True),
        (torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last), True),
        (torch.zeros(1).expand(2, 3), True),
        (torch.zeros(2, 3)[:, :2], False),
        (torch.zeros(2, 1).expand(2, 3), False),
    ],
)
def test_flat_view(tensor: Tensor, has_flat_view: bool) -> None:
    """Layouts that a single stride describes are one view; others are cut into blocks."""
    assert (flat_view(tensor) is not None) == has_flat_view


def test_pieces_are_not_too_many() -> None:
    """Blocks of a slice fill at least half of the limit on average, so that work grows with elements."""
    sliced = torch.zeros(1).expand(3, 40, 500).clone()[:, ::2, :499]
    assert len(list(iter_pieces(sliced, 1000))) <= 2 * -(-sliced.numel() // 1000)
