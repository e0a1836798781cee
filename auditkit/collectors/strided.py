"""Cuts strided tensors into small pieces without copying them whole.

The statistics do not depend on the order of elements, so a tensor may be read in the order of its memory.
"""

from collections.abc import Iterator
from itertools import pairwise

from torch import Tensor


def flat_view(tensor: Tensor) -> Tensor | None:
    """Return a 1-D view of all elements in memory order, or None where no single stride describes them.

    Contiguous, transposed, channels_last and fully expanded tensors have one; most slices do not.
    """
    if tensor.dim() == 1:
        return tensor
    if tensor.is_contiguous():
        return tensor.view(-1)
    sizes, strides = tensor.shape, tensor.stride()
    order = sorted((d for d in range(tensor.dim()) if sizes[d] != 1), key=lambda d: -strides[d])
    for outer, inner in pairwise(order):
        if strides[outer] != strides[inner] * sizes[inner]:
            return None
    unit_dims = [d for d in range(tensor.dim()) if sizes[d] == 1]
    return tensor.permute(unit_dims + order).view(-1)


def iter_pieces(tensor: Tensor, limit: int) -> Iterator[Tensor]:
    """Yield views of at most `limit` elements that together hold every element of `tensor` once.

    Pieces of a tensor that has a flat view are 1-D; others keep the tensor's number of dimensions.
    A tensor without elements yields nothing.
    """
    flat = flat_view(tensor) if tensor.numel() else None
    if flat is None:
        yield from _iter_blocks(tensor, limit)
        return
    count = flat.numel()
    if count <= limit:
        yield flat
        return
    for start in range(0, count, limit):
        yield flat.narrow(0, start, min(limit, count - start))


def _iter_blocks(tensor: Tensor, limit: int) -> Iterator[Tensor]:
    """Yield blocks of at most `limit` elements, cutting along the longest dimension first."""
    count = tensor.numel()
    if count == 0:
        return
    if count <= limit:
        yield tensor
        return
    size, dim = max((size, dim) for dim, size in enumerate(tensor.shape))
    step = max(1, limit // (count // size))
    for start in range(0, size, step):
        yield from _iter_blocks(tensor.narrow(dim, start, min(step, size - start)), limit)
