"""Measures gradients on an accelerator by ordinary operators, reading nothing back to the host.

Legend: T gradients, P segments, K = 3 + S rows of a record (see records).

Gradients are packed into bounded buffers, so the number of operators grows with their elements per
BATCH_ELEMENTS and not with the number of tensors, and no temporary grows with either. NaN and Inf cannot be
branched on without a read: they are set to zero in the packed copy, and counted by what that changes.
Lengths and offsets live in views made by the host; no table is copied to the device.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from .records import COUNT_ROWS
from .sources import FLOAT8_DTYPES
from .strided import iter_pieces

# Half of them halves the peak and doubles the operators per element.
BATCH_ELEMENTS = 2**19
# Bounds what a reduction may convert to float64 at once where it does not convert in registers, and the
# error of a float64 sum: n * 2**-53 relative.
SEGMENT_ELEMENTS = 65536


def measure_on_device(tensors: Sequence[Tensor], shifts: tuple[int, ...]) -> Tensor:
    """Return the record of strided, real tensors of one device and dtype: float64, shape (K * T,).

    Performs no synchronization and no copy between host and device. Peak extra bytes: BATCH_ELEMENTS times 8
    for float32 and float64 and 5 for 16-bit types; 8 * SEGMENT_ELEMENTS where reductions convert in memory;
    and 8 * K a segment.
    """
    segment_counts = [0] * len(tensors)
    parts_KP = [_measure_batch(segments, shifts) for segments in _iter_batches(tensors, segment_counts)]
    return _reduce_segments(torch.cat(parts_KP, dim=1), segment_counts)


def _iter_batches(tensors: Sequence[Tensor], segment_counts: list[int]) -> Iterator[list[Tensor]]:
    """Yield lists of 1-D segments of at most one batch, and count the segments of each tensor.

    A tensor without elements becomes one segment of one zero: a record has a place for each, and zeros
    change neither a norm nor a number of non-zeros.
    """
    batch: list[Tensor] = []
    # float64 also needs a scaled copy of the batch.
    space = capacity = BATCH_ELEMENTS // 2 if tensors[0].dtype == torch.float64 else BATCH_ELEMENTS
    for index, tensor in enumerate(tensors):
        source = tensor if tensor.numel() else tensor.new_zeros(1)
        for piece in iter_pieces(source, SEGMENT_ELEMENTS):
            if piece.numel() > space:
                yield batch
                batch, space = [], capacity
            batch.append(piece if piece.dim() == 1 else piece.reshape(-1))
            space -= piece.numel()
            segment_counts[index] += 1
    yield batch


def _measure_batch(segments: list[Tensor], shifts: tuple[int, ...]) -> Tensor:
    """Return the K rows of P segments, shape (K, P), and empty the list of them.

    Some segments are flattened copies of slices, which would otherwise live beside the packed copy.
    """
    lengths = [segment.numel() for segment in segments]
    packed_N = torch.cat(segments)
    segments.clear()
    if packed_N.dtype in FLOAT8_DTYPES:  # float8 has no operators of its own
        packed_N = packed_N.float()
    cells = _nonzero_counts(packed_N, lengths)
    packed_N.nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
    cells += _nonzero_counts(packed_N, lengths)
    packed_N.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
    cells += _nonzero_counts(packed_N, lengths)
    for shift in shifts:
        scaled_N = packed_N if shift == 0 else packed_N * 2.0**shift
        cells += _segment_norms(_split(scaled_N, lengths), 2)
    return torch.stack(cells).view(COUNT_ROWS + len(shifts), len(lengths))


def _reduce_segments(cells_KP: Tensor, segment_counts: Sequence[int]) -> Tensor:
    """Combine the segments of each tensor: counts add, norms add in squares. Shape (K * T,)."""
    row_count = cells_KP.shape[0]
    parts = _split(cells_KP.reshape(-1), list(segment_counts) * row_count)
    first_norm = COUNT_ROWS * len(segment_counts)
    return torch.stack(_segment_norms(parts[:first_norm], 1) + _segment_norms(parts[first_norm:], 2))


def _nonzero_counts(packed_N: Tensor, lengths: list[int]) -> list[Tensor]:
    """Return the number of non-zeros of each segment, exactly: a float64 sum of ones.

    Not by norms of order 0, which CUDA computes tensor by tensor, nor by sums of booleans, which it converts
    to int64 first: float16 ones take 2 bytes an element.
    """
    ones_N = packed_N.ne(0).to(torch.float16)
    return _segment_norms(_split(ones_N, lengths), 1)


def _split(values_N: Tensor, lengths: list[int]) -> Sequence[Tensor]:
    """Return consecutive views of these lengths, by one operator."""
    views: Sequence[Tensor] = torch.ops.aten.split_with_sizes(values_N, lengths)
    return views


def _segment_norms(parts: Iterable[Tensor], order: int) -> list[Tensor]:
    """Return the float64 norm of each part; order 1 sums magnitudes.

    One operator for all parts; on CUDA it converts to float64 in registers, on a CPU part by part.
    """
    if hasattr(torch, "_foreach_norm"):  # private; in every release from 2.4 on with dtype=
        return list(torch._foreach_norm(list(parts), order, dtype=torch.float64))
    return [torch.linalg.vector_norm(part, order, dtype=torch.float64) for part in parts]
