"""Measures gradients that lie in host memory, a cache-sized piece at a time.

Reading a CPU tensor is no synchronization, so this pass branches on what it reads. Squares are summed in
float32 where the gradient has 32 bits or fewer, and a piece whose sum may have lost something (NaN, Inf,
overflow, underflow) is done again in float64: rare, in cache, in buffers that are used again and again.

The relative error of a norm of float32 or narrower elements, u = 2**-24: a row of ROW_ELEMENTS is one dot
product of numpy's BLAS, whose float32 kernels keep 16 running sums or more (4 SSE registers of 4; 32 with
AVX2). An element's square goes through at most 256 / 16 roundings there and 4 where the sums are added: 20 u.
Packed gradients are summed pairwise by numpy: 1 for the square, 19 in blocks of 128 elements, log2(4096 / 128)
above them: 25 u. Everything after that is float64. The root halves it: 12.5 u = 7.5e-7.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .records import SMALLEST_ACCURATE_NORM, WIDE_SHIFTS, GradientMeasure
from .sources import FLOAT8_DTYPES
from .strided import flat_view, iter_pieces

# One piece: most of it stays in the second-level cache from the first read to the second, and the calls on it cost
# little beside them. Half of it took 10% longer.
PIECE_BYTES = 512 * 1024
# What is converted, or looked at again, at once. Below 32768 elements ATen opens no parallel region: nothing waits
# for cores that others use, and no OpenMP pool starts, which a later fork would not survive.
CONVERTED_ELEMENTS = 31 * 1024
# No BLAS starts threads for a dot product of this length (OpenBLAS from 10000 elements on, MKL from 8192).
ROW_ELEMENTS = 256
# Gradients up to this length are copied into one buffer and measured together: a copy costs less than calls.
PACKED_ELEMENTS = 4096

# Below these a sum of squares may have lost elements whose squares underflowed. In float32 each of 2**15 loses at
# most 2**-126, where a processor flushes subnormal numbers: 2**-31 relative. float64: see SMALLEST_ACCURATE_NORM.
_SMALLEST_ACCURATE_SUM = {torch.float32: 2.0**-80, torch.float64: SMALLEST_ACCURATE_NORM**2}
_SHIFT = max(WIDE_SHIFTS)
_NO_ELEMENTS = GradientMeasure(0.0, 0, 0, 0)

_Array = npt.NDArray[Any]


def measure_on_cpu(tensors: Sequence[Tensor]) -> list[GradientMeasure]:
    """Return the measure of each strided, real CPU tensor; all are of one dtype.

    Peak extra memory: 24 bytes * CONVERTED_ELEMENTS, PIECE_BYTES / 4, and 40 bytes for every CONVERTED_ELEMENTS of
    the largest tensor.
    """
    if not tensors:
        return []
    measures = [_NO_ELEMENTS] * len(tensors)
    counts = [tensor.numel() for tensor in tensors]
    scratch = _Scratch(tensors[0].dtype, sum(counts))
    longest_packed = 0 if tensors[0].dtype in FLOAT8_DTYPES else PACKED_ELEMENTS  # cat does not convert float8
    with np.errstate(all="ignore"):
        for index, count in enumerate(counts):
            if count > longest_packed:
                measures[index] = _measure_tensor(tensors[index], scratch)
        for batch in _batches(counts, longest_packed):
            for index, measure in zip(batch, _measure_packed([tensors[i] for i in batch], scratch), strict=True):
                measures[index] = measure
    return measures


class _Scratch:
    """The buffers of one pass: two of the dtype that squares are summed in, one of float64, and a mask."""

    def __init__(self, dtype: torch.dtype, element_count: int) -> None:
        self.dtype = torch.float64 if dtype == torch.float64 else torch.float32
        self.smallest_sum = _SMALLEST_ACCURATE_SUM[self.dtype]
        self.piece_elements = PIECE_BYTES // self.dtype.itemsize
        length = min(CONVERTED_ELEMENTS, element_count)
        self.values = torch.empty(length, dtype=self.dtype, device="cpu")
        self.array: _Array = self.values.numpy()
        self.spare_values = torch.empty_like(self.values)
        self.spare: _Array = self.spare_values.numpy()
        self.wide: npt.NDArray[np.float64] = np.empty(length)
        self.mask: npt.NDArray[np.bool_] = np.empty(min(self.piece_elements, element_count), dtype=np.bool_)


def _batches(counts: Sequence[int], longest: int) -> Iterator[list[int]]:
    """Yield the indices of the tensors of 1 to `longest` elements, in lists that fit the buffer together."""
    batch: list[int] = []
    room = CONVERTED_ELEMENTS
    for index, count in enumerate(counts):
        if not 0 < count <= longest:
            continue
        if count > room:
            yield batch
            batch, room = [], CONVERTED_ELEMENTS
        batch.append(index)
        room -= count
    if batch:
        yield batch


def _measure_packed(tensors: Sequence[Tensor], scratch: _Scratch) -> Iterator[GradientMeasure]:
    """Yield the measures of small tensors, none without elements, that fit the buffer together."""
    flats = [tensor if tensor.dim() == 1 else tensor.reshape(-1) for tensor in tensors]
    ends = list(accumulate(flat.numel() for flat in flats))
    starts = [0, *ends[:-1]]
    torch.cat(flats, out=scratch.values[: ends[-1]])
    array_N, mask_N = scratch.array[: ends[-1]], scratch.mask[: ends[-1]]
    sums_T = np.add.reduceat(np.square(array_N, out=scratch.spare[: ends[-1]]), starts).tolist()
    np.equal(array_N, 0.0, out=mask_N)
    zeros_T = np.add.reduceat(mask_N, starts, dtype=np.intp).tolist() if mask_N.any() else [0] * len(flats)
    smallest_sum = scratch.smallest_sum
    for start, end, square_sum, zero_count in zip(starts, ends, sums_T, zeros_T, strict=True):
        if smallest_sum <= square_sum < math.inf:
            yield GradientMeasure(math.sqrt(square_sum), end - start - zero_count, 0, 0)
        else:
            yield _measure(array_N[start:end], square_sum, end - start - zero_count, scratch)


def _measure_tensor(tensor: Tensor, scratch: _Scratch) -> GradientMeasure:
    norms = []
    nonzero_total = nan_total = inf_total = 0
    for array_N in _arrays(tensor, scratch):
        square_sum = _square_sum(array_N)
        is_zero_N = np.equal(array_N, 0.0, out=scratch.mask[: len(array_N)])
        nonzero_count = len(array_N) - int(np.count_nonzero(is_zero_N))
        norm, _, nan_count, inf_count = _measure(array_N, square_sum, nonzero_count, scratch)
        norms.append(norm)
        nonzero_total += nonzero_count
        nan_total += nan_count
        inf_total += inf_count
    return GradientMeasure(math.hypot(*norms), nonzero_total, nan_total, inf_total)


def _arrays(tensor: Tensor, scratch: _Scratch) -> Iterator[_Array]:
    """Yield contiguous pieces of the dtype that squares are summed in: views, or copies in the buffer."""
    flat = flat_view(tensor.detach()) if tensor.dtype == scratch.dtype and tensor.numel() else None
    # Subclasses that wrap another tensor have no memory of their own.
    if flat is not None and type(flat) is Tensor and flat.stride(0) == 1 and not flat.is_neg():
        array: _Array = flat.numpy()
        yield from _chunks(array, scratch.piece_elements)
        return
    for piece in iter_pieces(tensor, CONVERTED_ELEMENTS):
        values_N = scratch.values[: piece.numel()]
        (values_N if piece.dim() == 1 else values_N.view(piece.shape)).copy_(piece)
        yield scratch.array[: piece.numel()]


def _measure(array_N: _Array, square_sum: float, nonzero_count: int, scratch: _Scratch) -> GradientMeasure:
    """Return the measure of one piece, looking again where the sum of its squares may not be accurate."""
    if scratch.smallest_sum <= square_sum < math.inf or nonzero_count == 0:
        return GradientMeasure(math.sqrt(square_sum), nonzero_count, 0, 0)
    if math.isfinite(square_sum):
        parts = _chunks(array_N, CONVERTED_ELEMENTS)
        return GradientMeasure(math.hypot(*[_wide_norm(part, scratch) for part in parts]), nonzero_count, 0, 0)
    norms, nan_counts, inf_counts = zip(*_measure_nonfinite(array_N, scratch), strict=True)
    return GradientMeasure(math.hypot(*norms), nonzero_count, sum(nan_counts), sum(inf_counts))


def _measure_nonfinite(array_N: _Array, scratch: _Scratch) -> Iterator[tuple[float, int, int]]:
    """Yield norms of finite elements and numbers of NaN and Inf of parts, looking only at rows with a bad sum."""
    rows, rest = _rows(array_N)
    sums_R = np.vecdot(rows, rows)
    is_good_R = np.isfinite(sums_R)
    good_sum = float(np.add.reduce(sums_R, where=is_good_R, dtype=np.float64))
    if good_sum >= scratch.smallest_sum:
        yield math.sqrt(good_sum), 0, 0
    else:
        is_good_R[:] = False
    for bad in _chunks(np.flatnonzero(~is_good_R), len(scratch.spare) // ROW_ELEMENTS):
        part = scratch.spare[: len(bad) * ROW_ELEMENTS]
        np.take(rows, bad, axis=0, out=part.reshape(-1, ROW_ELEMENTS), mode="clip")  # "raise" would copy first
        yield _measure_spare(len(part), scratch)
    scratch.spare[: len(rest)] = rest
    yield _measure_spare(len(rest), scratch)


def _measure_spare(count: int, scratch: _Scratch) -> tuple[float, int, int]:
    """Return the norm of the finite ones of the first elements of `spare`, and the numbers of NaN and Inf."""
    array_N, mask_N = scratch.spare[:count], scratch.mask[:count]
    finite_count = int(np.count_nonzero(np.isfinite(array_N, out=mask_N)))
    nan_count = int(np.count_nonzero(np.isnan(array_N, out=mask_N))) if finite_count < count else 0
    inf_count = count - finite_count - nan_count
    if finite_count == 0:
        return 0.0, nan_count, inf_count
    if finite_count < count:
        # Not numpy's copyto or where with a mask, which are 10x slower where the mask is mixed.
        scratch.spare_values[:count].nan_to_num_(0.0, 0.0, 0.0)
    square_sum = _square_sum(array_N)
    is_accurate = scratch.smallest_sum <= square_sum < math.inf
    return math.sqrt(square_sum) if is_accurate else _wide_norm(array_N, scratch), nan_count, inf_count


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
    """Return the sum of squares: of rows in the array's dtype, of the rows' sums in float64."""
    rows, rest = _rows(array_N)
    total = float(np.add.reduce(np.vecdot(rows, rows), dtype=np.float64))
    return total + float(np.vecdot(rest, rest)) if len(rest) else total


def _rows(array_N: _Array) -> tuple[_Array, _Array]:
    """Return views: rows of ROW_ELEMENTS, and what is left over."""
    whole = len(array_N) // ROW_ELEMENTS * ROW_ELEMENTS
    return array_N[:whole].reshape(-1, ROW_ELEMENTS), array_N[whole:]
