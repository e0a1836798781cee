"""The two kernels of the Triton pass: one reads every gradient once, one reduces its chunks per tensor.

Legend: C chunks, T gradients, S shifts, K = 3 + S rows of a record (see records), B elements of a block.

A chunk is a run of elements in memory. Its elements count from the last 16-byte boundary at or below its
first one, so that a block of them, wherever the gradient starts, is loaded 16 bytes a thread: only a first
and a last block that the chunk fills in part are masked. No program writes what another writes, and none
waits for another: the same gradients give the same bits.
"""

from typing import Any

import torch

from .records import NARROW_SHIFTS, shifts_for

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError("the kernels of auditkit.collectors need the package triton") from error

# The widest load of one thread.
LOAD_BYTES = tl.constexpr(16)
# records.WIDE_SHIFTS as factors.
SHRINK = tl.constexpr(2.0**-600)
STRETCH = tl.constexpr(2.0**600)
INFINITY = tl.constexpr(float("inf"))


# Two 16-byte loads a thread and block; the compiler unrolls four blocks.
BLOCK_BYTES = 8192
SCAN_WARPS = 8
REDUCE_BLOCK = 512
REDUCE_WARPS = 4


def scan_options(dtype: torch.dtype) -> dict[str, Any]:
    """Return the compile-time arguments of `measure_chunks` for gradients of `dtype`."""
    return {
        "DTYPE": getattr(tl, str(dtype).removeprefix("torch.")),
        "WIDE": shifts_for(dtype) != NARROW_SHIFTS,
        "BLOCK": BLOCK_BYTES // dtype.itemsize,
        "num_warps": SCAN_WARPS,
        "enable_fp_fusion": True,  # said, because Triton 3.9 warns of a default that is about to change
    }


def reduce_options(dtype: torch.dtype) -> dict[str, Any]:
    """Return the compile-time arguments of `reduce_tensors` for gradients of `dtype`."""
    return {
        "SHIFTS": len(shifts_for(dtype)),
        "BLOCK": REDUCE_BLOCK,
        "num_warps": REDUCE_WARPS,
        "enable_fp_fusion": True,
    }


# Not specialized on what changes from model to model: one compilation a dtype.
@triton.jit(do_not_specialize=["C"], do_not_specialize_on_alignment=["counts_C"])
def measure_chunks(
    pointers_C, counts_C, cells_C, sums_SC, C, DTYPE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """Write, for one chunk of `DTYPE` values per program, its non-zero, NaN and Inf counts and sums of squares.

    `cells_C` is int32 of shape (3, C) and `sums_SC` float64 of shape (S, C). Only a chunk whose sum is not
    finite is read twice.
    """
    chunk = tl.program_id(0)
    address = tl.load(pointers_C + chunk)
    PER_LOAD: tl.constexpr = LOAD_BYTES * 8 // DTYPE.primitive_bitwidth
    head = (address & (LOAD_BYTES - 1)).to(tl.int32) // (LOAD_BYTES // PER_LOAD)
    source = tl.multiple_of((address & -LOAD_BYTES).to(tl.pointer_type(DTYPE)), LOAD_BYTES)
    end = head + tl.load(counts_C + chunk)
    nonzero, low, middle, high = _scan(source, head, end, WIDE, False, PER_LOAD, BLOCK)
    nan = 0
    inf = 0
    # A sum of float64 squares of finite values, shrunk if they are float64 themselves, is finite.
    if not ((low if WIDE else middle) < INFINITY):
        nan, inf = _count_nonfinite(source, head, end, BLOCK)
        _, low, middle, high = _scan(source, head, end, WIDE, True, PER_LOAD, BLOCK)
    tl.store(cells_C + chunk, nonzero)
    tl.store(cells_C + C + chunk, nan)
    tl.store(cells_C + 2 * C + chunk, inf)
    if WIDE:
        tl.store(sums_SC + chunk, low)
        tl.store(sums_SC + C + chunk, middle)
        tl.store(sums_SC + 2 * C + chunk, high)
    else:
        tl.store(sums_SC + chunk, middle)


@triton.jit
def _scan(
    source, head, end, WIDE: tl.constexpr, FINITE_ONLY: tl.constexpr, PER_LOAD: tl.constexpr, BLOCK: tl.constexpr
):
    """Return the number of non-zeros of elements head..end, and the sum of their squares at each shift."""
    lanes_B = tl.arange(0, BLOCK)
    sums = (
        tl.zeros([BLOCK // PER_LOAD], tl.int32),
        tl.zeros([BLOCK // PER_LOAD], tl.float64),
        tl.zeros([BLOCK // PER_LOAD], tl.float64),
        tl.zeros([BLOCK // PER_LOAD], tl.float64),
    )
    first = tl.where(head > 0, 1, 0)
    last = end // BLOCK
    for block in range(first, last):
        sums = _add(tl.load(source + block * BLOCK + lanes_B), sums, WIDE, FINITE_ONLY, PER_LOAD)
    if head > 0:
        values_B = tl.load(source + lanes_B, (lanes_B >= head) & (lanes_B < end), other=0.0)
        sums = _add(values_B, sums, WIDE, FINITE_ONLY, PER_LOAD)
    if (last >= first) & (last * BLOCK < end):
        offsets_B = last * BLOCK + lanes_B
        values_B = tl.load(source + offsets_B, offsets_B < end, other=0.0)
        sums = _add(values_B, sums, WIDE, FINITE_ONLY, PER_LOAD)
    return tl.sum(sums[0]), tl.sum(sums[1]), tl.sum(sums[2]), tl.sum(sums[3])


@triton.jit
def _add(values_B, sums, WIDE: tl.constexpr, FINITE_ONLY: tl.constexpr, PER_LOAD: tl.constexpr):
    """Add a block to the four sums, the elements of one 16-byte load of a thread to one element of each.

    A sum for each element of a block instead takes so many registers that half as many loads are in flight.
    """
    nonzero, low, middle, high = sums
    values = tl.reshape(_as_float(values_B), [values_B.shape[0] // PER_LOAD, PER_LOAD])
    nonzero += tl.sum((values != 0.0).to(tl.int32), 1)
    if FINITE_ONLY:
        values = tl.where(tl.abs(values) < INFINITY, values, 0.0)
    wide = values.to(tl.float64)
    middle += tl.sum(wide * wide, 1)
    if WIDE:
        low += tl.sum((wide * SHRINK) * (wide * SHRINK), 1)
        high += tl.sum((wide * STRETCH) * (wide * STRETCH), 1)
    return nonzero, low, middle, high


@triton.jit
def _count_nonfinite(source, head, end, BLOCK: tl.constexpr):
    """Return the numbers of NaN and of Inf of elements head..end."""
    lanes_B = tl.arange(0, BLOCK)
    nan_B = tl.zeros([BLOCK], tl.int32)
    inf_B = tl.zeros([BLOCK], tl.int32)
    for start in range(0, end, BLOCK):
        offsets_B = start + lanes_B
        values_B = _as_float(tl.load(source + offsets_B, (offsets_B >= head) & (offsets_B < end), other=0.0))
        nan_B += (values_B != values_B).to(tl.int32)
        inf_B += (tl.abs(values_B) == INFINITY).to(tl.int32)
    return tl.sum(nan_B), tl.sum(inf_B)


@triton.jit
def _as_float(values_B):
    """16-bit floats have few operators of their own; a bfloat16 is the upper half of a float32."""
    if values_B.dtype == tl.bfloat16:
        return (values_B.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    elif values_B.dtype == tl.float16:  # noqa: RET505 - the compiler types every return that is not in an else
        return values_B.to(tl.float32)
    else:
        return values_B


@triton.jit(do_not_specialize=["C", "T"], do_not_specialize_on_alignment=["starts_T"])
def reduce_tensors(starts_T, cells_C, sums_SC, record_KT, C, T, SHIFTS: tl.constexpr, BLOCK: tl.constexpr):
    """Write the K rows of one gradient per program, from its chunks starts_T[t]..starts_T[t + 1]."""
    tensor = tl.program_id(0)
    start = tl.load(starts_T + tensor)
    stop = tl.load(starts_T + tensor + 1)
    nonzero = _total(cells_C, start, stop, tl.int64, BLOCK)
    nan = _total(cells_C + C, start, stop, tl.int64, BLOCK)
    inf = _total(cells_C + 2 * C, start, stop, tl.int64, BLOCK)
    tl.store(record_KT + tensor, nonzero.to(tl.float64))
    tl.store(record_KT + T + tensor, (nonzero - nan).to(tl.float64))
    tl.store(record_KT + 2 * T + tensor, (nonzero - nan - inf).to(tl.float64))
    for shift in tl.static_range(SHIFTS):
        squares = _total(sums_SC + shift * C, start, stop, tl.float64, BLOCK)
        tl.store(record_KT + (3 + shift) * T + tensor, tl.sqrt(squares))


@triton.jit
def _total(cells_C, start, stop, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    total_B = tl.zeros([BLOCK], DTYPE)
    for offset in range(start, stop, BLOCK):
        chunks_B = offset + tl.arange(0, BLOCK)
        total_B += tl.load(cells_C + chunks_B, chunks_B < stop, other=0).to(DTYPE)
    return tl.sum(total_B)
