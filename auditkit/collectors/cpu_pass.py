"""Measures gradients that lie in host memory, a cache-sized piece at a time.

Reading a CPU tensor does not synchronize, so this pass branches on what it reads. Squares are summed in
float32 where the gradient has 32 bits or fewer, and a piece whose sum may have lost something (NaN, Inf,
overflow, underflow) is done again in float64: rare, in cache, in buffers that are used again and again.

The relative error of a norm of float32 or narrower elements, u = 2**-24: a row of ROW_ELEMENTS is one dot
product of numpy's BLAS, whose float32 kernels keep 16 running sums or more (4 SSE registers of 4; 32 with
AVX2). An element's square goes through at most 448 / 16 roundings there and 4 where the sums are added: 32 u.
Packed gradients are summed pairwise by numpy: 1 for the square, 19 in blocks of 128 elements, log2(4096 / 128)
above them: 25 u. Everything after that is float64. The root halves it: 16 u = 9.6e-7.
"""

import math
import operator
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .records import SMALLEST_ACCURATE_NORM, WIDE_SHIFTS, GradientMeasure, combine_measures
from .sources import FLOAT8_DTYPES
from .strided import flat_view, iter_pieces

# The longest row of whole cache lines whose error stays below 1e-6. No BLAS starts threads for this length (OpenBLAS
# from 10000 elements on, MKL from 8192).
ROW_ELEMENTS = 448
# The quarters of a piece are read by turns, a row of each, so that the processor fetches ahead in four places. The
# whole pass took 1.2 times as long with one row after the other, 1.05 times with three places, 1.5 times with eight.
STREAMS = 4
# What is converted, or looked at again, at once, in whole rows. Below 32768 elements ATen opens no parallel region:
# nothing waits for cores that others use, and no OpenMP pool starts, which a later fork would not survive.
CONVERTED_ELEMENTS = 18 * STREAMS * ROW_ELEMENTS
# What is widened from bfloat16 at once, by numpy, which starts no threads. torch, a quarter at a time, took twice as
# long.
WIDENED_ELEMENTS = 4 * CONVERTED_ELEMENTS
# One piece stays in the last-level cache from the first read to the second, and the calls on it cost little beside
# them: 448,000 elements of float32. 1 MiB took 4% longer, a quarter of that 25%.
PIECE_BYTES = 1000 * ROW_ELEMENTS * 4
# numpy's views of so many gradients are made at once: between two gradients the code that makes them would be
# fetched again each time, as a gradient fills the caches.
VIEWS = 64
# Gradients up to this length are copied into one buffer and measured together: a copy costs less than calls.
PACKED_ELEMENTS = 4096

# Below these a sum of squares may have lost elements whose squares underflowed. In float32 each of 2**18 loses at
# most 2**-126, where a processor flushes subnormal numbers: 2**-28 relative. float64: see SMALLEST_ACCURATE_NORM.
_SMALLEST_ACCURATE_SUM = {torch.float32: 2.0**-80, torch.float64: SMALLEST_ACCURATE_NORM**2}
_SHIFT = max(WIDE_SHIFTS)
_NO_ELEMENTS = GradientMeasure(0.0, 0, 0, 0)

_Array = npt.NDArray[Any]


def measure_on_cpu(tensors: Sequence[Tensor]) -> list[GradientMeasure]:
    """Return the measure of each strided, real CPU tensor; all are of one dtype.

    Peak extra memory: 24 bytes * CONVERTED_ELEMENTS, PIECE_BYTES / 4, and 40 bytes for every CONVERTED_ELEMENTS of
    the largest tensor; for bfloat16 4 bytes * WIDENED_ELEMENTS in place of 4 * CONVERTED_ELEMENTS.
    """
    if not tensors:
        return []
    measures = [_NO_ELEMENTS] * len(tensors)
    counts = [tensor.numel() for tensor in tensors]
    scratch = _Scratch(tensors[0].dtype, sum(counts))
    longest_packed = 0 if tensors[0].dtype in FLOAT8_DTYPES else PACKED_ELEMENTS  # cat does not convert float8
    with np.errstate(all="ignore"):
        large = [index for index, count in enumerate(counts) if count > longest_packed]
        for start in range(0, len(large), VIEWS):
            block = large[start : start + VIEWS]
            views = [_array_of(tensors[index], scratch.dtype) for index in block]
            for index, view in zip(block, views, strict=True):
                pieces = _arrays(tensors[index], view, scratch)
                measures[index] = combine_measures([_measure(piece_N, scratch) for piece_N in pieces])
        for batch in _batches(counts, longest_packed):
            packed = _measure_packed([tensors[i] for i in batch], [counts[i] for i in batch], scratch)
            for index, measure in zip(batch, packed, strict=True):
                measures[index] = measure
    return measures


class _Scratch:
    """The buffers of one pass: two of the dtype that squares are summed in, one of float64, and a mask."""

    def __init__(self, dtype: torch.dtype, element_count: int) -> None:
        self.dtype = torch.float64 if dtype == torch.float64 else torch.float32
        self.smallest_sum = _SMALLEST_ACCURATE_SUM[self.dtype]
        is_widened = dtype == torch.bfloat16
        self.piece_elements = WIDENED_ELEMENTS if is_widened else PIECE_BYTES // self.dtype.itemsize
        length = min(CONVERTED_ELEMENTS, element_count)
        space = min(WIDENED_ELEMENTS, element_count) if is_widened else length
        self.values = torch.empty(space, dtype=self.dtype, device="cpu")
        self.array: _Array = self.values.numpy()
        self.bits = self.array.view(np.int32)
        self.spare_values = self.values.new_empty(length)
        self.spare: _Array = self.spare_values.numpy()
        self.zero = self.array.dtype.type(0)  # comparing with a number of the array's own dtype is 1 us faster
        self.wide: npt.NDArray[np.float64] = np.empty(length)
        self.flags = bytearray(min(self.piece_elements, element_count))
        self.mask: npt.NDArray[np.bool_] = np.frombuffer(self.flags, dtype=np.bool_)

    def widened(self, bits_N: npt.NDArray[np.int16]) -> _Array:
        """Return the float32 values of bfloat16 bits, which are their upper halves, in the buffer."""
        wide_bits_N = self.bits[: len(bits_N)]
        np.copyto(wide_bits_N, bits_N)
        np.left_shift(wide_bits_N, 16, out=wide_bits_N)
        return self.array[: len(bits_N)]

    def zero_flags(self, array_N: _Array) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the zeros among at most as many elements as a piece has, None where there are none."""
        count = len(array_N)
        is_zero_N = np.equal(array_N, self.zero, out=self.mask[:count])
        # One search for a byte: a fifth of the time of counting them, which only gradients with zeros need.
        return is_zero_N if self.flags.find(1, 0, count) >= 0 else None


def _batches(counts: Sequence[int], longest: int) -> Iterator[list[int]]:
    """Yield the indices of the tensors of 1 to `longest` elements, in lists that fit the buffer together."""
    batch: list[int] = []
    space = CONVERTED_ELEMENTS
    for index, count in enumerate(counts):
        if not 0 < count <= longest:
            continue
        if count > space:
            yield batch
            batch, space = [], CONVERTED_ELEMENTS
        batch.append(index)
        space -= count
    if batch:
        yield batch


def _measure_packed(tensors: Sequence[Tensor], counts: Sequence[int], scratch: _Scratch) -> list[GradientMeasure]:
    """Return the measures of small tensors, none without elements, that fit the buffer together."""
    flats = [tensor if tensor.dim() == 1 else tensor.reshape(-1) for tensor in tensors]
    *starts, total = accumulate(counts, initial=0)
    torch.cat(flats, out=scratch.values[:total])
    array_N = scratch.array[:total]
    sums = np.add.reduceat(np.square(array_N, out=scratch.spare[:total]), starts).tolist()
    nonzero_counts: Sequence[int] = counts
    is_zero_N = scratch.zero_flags(array_N)
    if is_zero_N is not None:
        zero_counts = np.add.reduceat(is_zero_N, starts, dtype=np.intp).tolist()
        nonzero_counts = list(map(operator.sub, counts, zero_counts))
    if scratch.smallest_sum <= min(sums) and sum(sums) < math.inf:
        # A third of the time of calling GradientMeasure for each.
        fields = zip(map(math.sqrt, sums), nonzero_counts, repeat(0), repeat(0))
        return list(map(tuple.__new__, repeat(GradientMeasure), fields))
    parts = zip(starts, counts, sums, nonzero_counts, strict=True)
    return [_judge(array_N[at : at + count], square_sum, nonzero, scratch) for at, count, square_sum, nonzero in parts]


def _arrays(tensor: Tensor, array: _Array | None, scratch: _Scratch) -> Iterator[_Array]:
    """Yield contiguous pieces of the dtype that squares are summed in: views of `array`, or copies."""
    if array is not None:
        pieces = _chunks(array, scratch.piece_elements)
        yield from map(scratch.widened, pieces) if tensor.dtype == torch.bfloat16 else pieces
        return
    for piece in iter_pieces(tensor, CONVERTED_ELEMENTS):
        values_N = scratch.values[: piece.numel()]
        (values_N if piece.dim() == 1 else values_N.view(piece.shape)).copy_(piece)
        yield scratch.array[: piece.numel()]


def _array_of(tensor: Tensor, dtype: torch.dtype) -> _Array | None:
    """Return a view of all elements, contiguous and in one dimension, or None if there is no such view.

    Only of elements of `dtype`, and of the bits of bfloat16, which numpy does not know.
    """
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.is_neg():
        return None  # subclasses that wrap another tensor have no memory of their own
    flat = tensor.detach() if tensor.requires_grad else tensor
    if tensor.dtype == torch.bfloat16:
        flat = flat.view(torch.int16)
    elif tensor.dtype != dtype:
        return None
    if not flat.is_contiguous():
        view = flat_view(flat)
        if view is None or view.stride(0) != 1:
            return None
        flat = view
    array: _Array = flat.numpy()
    return array if array.ndim == 1 else array.reshape(-1)


def _measure(array_N: _Array, scratch: _Scratch) -> GradientMeasure:
    """Return the measure of one piece."""
    square_sum = _square_sum(array_N)
    is_zero_N = scratch.zero_flags(array_N)
    zero_count = 0 if is_zero_N is None else int(np.count_nonzero(is_zero_N))
    return _judge(array_N, square_sum, len(array_N) - zero_count, scratch)


def _judge(array_N: _Array, square_sum: float, nonzero_count: int, scratch: _Scratch) -> GradientMeasure:
    """Return the measure of one piece, looking again where the sum of its squares may not be accurate."""
    if scratch.smallest_sum <= square_sum < math.inf or nonzero_count == 0:
        return GradientMeasure(math.sqrt(square_sum), nonzero_count, 0, 0)
    parts = list(_chunks(array_N, CONVERTED_ELEMENTS))
    if math.isfinite(square_sum):
        return GradientMeasure(math.hypot(*[_wide_norm(part, scratch) for part in parts]), nonzero_count, 0, 0)
    norms, nan_counts, inf_counts = zip(*[_measure_nonfinite(part, scratch) for part in parts], strict=True)
    return GradientMeasure(math.hypot(*norms), nonzero_count, sum(nan_counts), sum(inf_counts))


def _measure_nonfinite(array_N: _Array, scratch: _Scratch) -> tuple[float, int, int]:
    """Return the norm of the finite elements of at most CONVERTED_ELEMENTS, and the numbers of NaN and Inf."""
    count = len(array_N)
    spare_N, mask_N = scratch.spare[:count], scratch.mask[:count]
    finite_count = int(np.count_nonzero(np.isfinite(array_N, out=mask_N)))
    nan_count = int(np.count_nonzero(np.isnan(array_N, out=mask_N))) if finite_count < count else 0
    inf_count = count - finite_count - nan_count
    if finite_count == 0:
        return 0.0, nan_count, inf_count
    np.copyto(spare_N, array_N)
    if finite_count < count:
        # Not numpy's copyto or where with a mask, which are 10x slower where the mask is mixed.
        scratch.spare_values[:count].nan_to_num_(0.0, 0.0, 0.0)
    square_sum = _square_sum(spare_N)
    is_accurate = scratch.smallest_sum <= square_sum < math.inf
    return math.sqrt(square_sum) if is_accurate else _wide_norm(spare_N, scratch), nan_count, inf_count


def _chunks(array_N: _Array, length: int) -> Iterator[_Array]:
    for start in range(0, len(array_N), max(1, length)):
        yield array_N[start : start + length]


def _wide_norm(array_N: _Array, scratch: _Scratch) -> float:
    """Return the norm of finite values from float64 squares, scaled where even those leave the range."""
    wide_N = scratch.wide[: len(array_N)]
    np.copyto(wide_N, array_N)
    norm = math.sqrt(_square_sum(wide_N))
    if array_N.dtype != np.float64:
        return norm
    if norm == math.inf:
        return math.sqrt(_square_sum(np.multiply(wide_N, 2.0**-_SHIFT, out=wide_N))) * 2.0**_SHIFT
    if norm < SMALLEST_ACCURATE_NORM:
        return math.sqrt(_square_sum(np.multiply(wide_N, 2.0**_SHIFT, out=wide_N))) * 2.0**-_SHIFT
    return norm


def _square_sum(array_N: _Array) -> float:
    """Return the sum of squares: each row in the array's dtype, the rest and the total in float64."""
    row_count = len(array_N) // (STREAMS * ROW_ELEMENTS)
    whole = row_count * STREAMS * ROW_ELEMENTS
    rows = array_N[:whole].reshape(STREAMS, row_count, ROW_ELEMENTS).swapaxes(0, 1)
    rest = array_N[whole:].astype(np.float64)
    # In the order "K" numpy would read row after row, as they lie in memory.
    return float(np.add.reduce(np.vecdot(rows, rows, order="C"), axis=None, dtype=np.float64) + rest.dot(rest))
