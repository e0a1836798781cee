"""Where the kernels find gradients: the table of their chunks, kept on the device from call to call.

Legend: C chunks, T gradients.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# A chunk costs a program 12 bytes of table and 20 of results. Half of it doubles both, and leaves more
# programs to fill the device with the last of a small model.
CHUNK_ELEMENTS = 65536
ALIGNMENT_BYTES = 16  # triton_kernels.LOAD_BYTES, which cannot be imported where there is no triton
# A training loop alternates between a few sets of addresses; a table of 1B elements takes 183 kB.
KEPT_TABLES = 8

# Addresses and element counts of T gradients in one piece, their dtype and device: a table says no more.
TableKey = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]


@dataclass(slots=True)
class ChunkTable:
    """The chunks of T gradients on one device: chunk c is counts[c] elements from address pointers[c] on."""

    pointers: Tensor  # int64 (C,)
    counts: Tensor  # int32 (C,)
    starts: Tensor  # int32 (T + 1,): the chunks of gradient t are starts[t]..starts[t + 1]
    storage: Tensor  # what the three are views of
    stream: int  # the stream that the table was written on
    written: torch.cuda.Event | None
    captured: bool = False  # a CUDA graph reads it, whenever that is replayed


class TableCache:
    """The tables used last. Nothing here waits for a device.

    A table goes up from pinned memory behind the work already on the stream. Torch's allocators keep the ring
    of buffers: by events and streams, they give out neither that memory nor the table's before it was read.
    """

    def __init__(self, size: int = KEPT_TABLES) -> None:
        self._size = size
        self._tables: dict[TableKey, ChunkTable] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: TableKey) -> bool:
        return key in self._tables

    def get(self, key: TableKey) -> ChunkTable:
        """Return the table of `key`, safe to read on the current stream.

        While that stream is captured, the table must be there: it cannot be uploaded, and it is kept for good.
        """
        with self._lock:
            table = self._tables.pop(key, None)
            if table is None:
                table = _upload(key)
            self._tables[key] = table  # the dictionary's order is that of use
            evictable = [old for old, kept in self._tables.items() if not kept.captured]
            for old in evictable[: -self._size]:
                del self._tables[old]
        _share_with_current_stream(table)
        return table


def _share_with_current_stream(table: ChunkTable) -> None:
    if table.written is None:
        return
    stream = torch.cuda.current_stream(table.storage.device)
    if torch.cuda.is_current_stream_capturing():
        # A graph may not wait for what is outside of it. Its warm-up ended before the capture began.
        table.captured = True
    elif stream.cuda_stream != table.stream:
        stream.wait_event(table.written)
        table.storage.record_stream(stream)


def _upload(key: TableKey) -> ChunkTable:
    addresses, counts, dtype, device = key
    pointers_C, counts_C, starts_T = cut_into_chunks(addresses, counts, dtype.itemsize)
    chunk_count = len(pointers_C)
    parts = [pointers_C.view(np.int32), counts_C, starts_T]
    on_device = device.type == "cuda"
    host = torch.empty(sum(len(part) for part in parts), dtype=torch.int32, pin_memory=on_device)
    np.concatenate(parts, out=host.numpy())
    storage = host.to(device, non_blocking=True)
    stream, written = 0, None
    if on_device:
        current = torch.cuda.current_stream(device)
        stream, written = current.cuda_stream, current.record_event()
    return ChunkTable(
        pointers=storage[: 2 * chunk_count].view(torch.int64),
        counts=storage[2 * chunk_count : 3 * chunk_count],
        starts=storage[3 * chunk_count :],
        storage=storage,
        stream=stream,
        written=written,
    )


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
