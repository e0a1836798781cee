"""Measure gradients on a CUDA device by two kernel launches, reading each element once.

Legend: T gradients, C chunks, S shifts, K = 3 + S rows of a record (see records).

Design: docs/design/collectors.md.
"""

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .device_pass import measure_on_device
from .records import COUNT_ROWS, NARROW_SHIFTS
from .strided import flat_view

# The oldest that Triton compiles for.
SMALLEST_CAPABILITY = (7, 0)
TRITON_DTYPES = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
# A chunk costs a program 12 bytes of table and 20 of results. Half of it doubles both, and leaves more
# programs to fill the device with the last of a small model.
CHUNK_ELEMENTS = 65536
ALIGNMENT_BYTES = 16  # triton_kernels.LOAD_BYTES, which cannot be imported without triton


def runs_on_triton(tensors: Sequence[Tensor], *, is_required: bool = False) -> bool:
    """Return whether `measure_with_triton` can measure these tensors of one device and dtype.

    It cannot while a CUDA graph is captured: the table of their addresses cannot be uploaded during a capture. Raises
    RuntimeError if the kernels are required and do not run on the CUDA device.
    """
    device, dtype = tensors[0].device, tensors[0].dtype
    if device.type != "cuda" or dtype not in TRITON_DTYPES or torch.compiler.is_compiling():
        return False
    # Subclasses stand for memory that is elsewhere, or nowhere.
    if not all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors):
        return False
    with _on(device):
        if torch.cuda.is_current_stream_capturing():
            return False
    why_not = _why_not(device.index)
    if why_not and is_required:
        raise RuntimeError(f'backend="triton": {why_not}. Leave backend out to use torch operators')
    return not why_not


@functools.cache
def _why_not(device_index: int) -> str:
    """Why the kernels do not run on this device, "" if they do: Triton also needs a C compiler and a driver for it."""
    if torch.version.hip or torch.cuda.get_device_capability(device_index) < SMALLEST_CAPABILITY:
        return f"the kernels need an NVIDIA GPU of capability 7.0 or later; cuda:{device_index} is none"
    try:
        measure_with_triton([torch.ones(1, device=f"cuda:{device_index}")], NARROW_SHIFTS)
    except Exception as error:  # the compiler, the linker and the driver have their own types
        return f"the kernels do not run on cuda:{device_index}: {error}"
    return ""


def measure_with_triton(tensors: Sequence[Tensor], shifts: tuple[int, ...]) -> Tensor:
    """Return the record of strided, real tensors of one device and dtype: float64, shape (K * T,).

    Performs no synchronization. Tensors that do not lie in one piece are measured by ordinary operators.
    Extra bytes for the others: 24 + 8 * S a chunk.
    """
    row_count = COUNT_ROWS + len(shifts)
    one_piece_T = [_is_one_piece(tensor) for tensor in tensors]
    if not any(one_piece_T):
        return measure_on_device(tensors, shifts)
    record = _launch(list(compress(tensors, one_piece_T)), shifts)
    if all(one_piece_T):
        return record
    others = [tensor for tensor, in_one_piece in zip(tensors, one_piece_T, strict=True) if not in_one_piece]
    columns = {
        True: iter(record.view(row_count, -1).unbind(1)),
        False: iter(measure_on_device(others, shifts).view(row_count, -1).unbind(1)),
    }
    return torch.stack([next(columns[in_one_piece]) for in_one_piece in one_piece_T], dim=1).view(-1)


def _is_one_piece(tensor: Tensor) -> bool:
    """Whether the elements lie one beside the other from `data_ptr()` on, in any order."""
    if tensor.is_contiguous():
        return True
    flat = flat_view(tensor)
    return flat is not None and flat.stride(0) == 1


def _launch(tensors: Sequence[Tensor], shifts: tuple[int, ...]) -> Tensor:
    """Measure tensors that each lie in one piece: two launches."""
    from . import triton_kernels as kernels

    dtype, device, tensor_count, shift_count = tensors[0].dtype, tensors[0].device, len(tensors), len(shifts)
    with _on(device):
        pointers_C, counts_C, starts_T = _upload(tensors)
        chunk_count = counts_C.numel()
        cells = torch.empty(COUNT_ROWS * chunk_count, dtype=torch.int32, device=device)
        sums = torch.empty(shift_count * chunk_count, dtype=torch.float64, device=device)
        record = torch.empty((COUNT_ROWS + shift_count) * tensor_count, dtype=torch.float64, device=device)
        if chunk_count:
            kernels.measure_chunks[(chunk_count,)](
                *(pointers_C, counts_C, cells, sums, chunk_count), **kernels.scan_options(dtype)
            )
        kernels.reduce_tensors[(tensor_count,)](
            *(starts_T, cells, sums, record, chunk_count, tensor_count), **kernels.reduce_options(dtype)
        )
    return record


def _upload(tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the chunks of T tensors on their device: int64 addresses (C,), int32 lengths (C,), int32 starts (T + 1,).

    The table goes up from pinned memory behind the work already on the stream, and nothing waits for it: torch's
    allocators give out neither that memory nor the table's before the device has read it.
    """
    device = tensors[0].device
    addresses, counts = [tensor.data_ptr() for tensor in tensors], [tensor.numel() for tensor in tensors]
    pointers_C, counts_C, starts_T = cut_into_chunks(addresses, counts, tensors[0].itemsize)
    parts = [pointers_C.view(np.int32), counts_C, starts_T]
    host = torch.empty(sum(len(part) for part in parts), dtype=torch.int32, pin_memory=device.type == "cuda")
    np.concatenate(parts, out=host.numpy())
    table = host.to(device, non_blocking=True)
    pointers, lengths, starts = torch.split_with_sizes(table, [len(part) for part in parts])
    return pointers.view(torch.int64), lengths, starts


def cut_into_chunks(
    addresses: Sequence[int], counts: Sequence[int], element_bytes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the address and the number of elements of each chunk, and the first chunk of each gradient.

    The first chunk of a gradient ends CHUNK_ELEMENTS after the 16-byte boundary at or below its address, so
    that every later one begins at such a boundary. A gradient without elements has no chunk.
    """
    address_T, count_T = np.array(addresses, np.int64), np.array(counts, np.int64)
    head_T = address_T % ALIGNMENT_BYTES // element_bytes
    chunks_T = np.where(count_T > 0, -(-(head_T + count_T) // CHUNK_ELEMENTS), 0)
    starts_T = np.concatenate([[0], np.cumsum(chunks_T)])
    index_C = np.arange(starts_T[-1]) - np.repeat(starts_T[:-1], chunks_T)
    head_C, count_C = np.repeat(head_T, chunks_T), np.repeat(count_T, chunks_T)
    first_C = np.maximum(index_C * CHUNK_ELEMENTS - head_C, 0)
    stop_C = np.minimum((index_C + 1) * CHUNK_ELEMENTS - head_C, count_C)
    pointer_C = np.repeat(address_T, chunks_T) + first_C * element_bytes
    return pointer_C, (stop_C - first_C).astype(np.int32), starts_T.astype(np.int32)


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Triton launches on the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
