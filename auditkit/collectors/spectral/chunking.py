"""How many replicas are worked on at once, and how they reach the device that works on them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

FREE_MEMORY_SHARE = 0.25
"""The most of the free memory that a chunk of replicas may take."""
MOST_REPLICAS = 8
"""More at once gains nothing: LAPACK and cuSOLVER take matrices of these sizes one after the other."""

CONTROL_GROUP = Path("/sys/fs/cgroup")


def replica_bytes(rows_N: int, columns_M: int, dtype: torch.dtype) -> int:
    """Return the bytes that one replica needs while it is worked on.

    The promoted copy, the one that the SVD overwrites and the one staged; U and V and their aligned copies;
    LAPACK's workspace of 4 D x D and the overlaps with the reference.
    """
    rank_D = min(rows_N, columns_M)
    return dtype.itemsize * (3 * rows_N * columns_M + 2 * rank_D * (rows_N + columns_M) + 8 * rank_D**2)


def choose_chunk(replica_count: int, bytes_per_replica: int, free_bytes: int) -> int:
    """Return how many replicas to work on at once: 1 to MOST_REPLICAS, within the share of the free memory."""
    fitting = int(free_bytes * FREE_MEMORY_SHARE) // bytes_per_replica
    return max(1, min(fitting, MOST_REPLICAS, replica_count))


def free_memory_bytes(device: torch.device) -> int:
    """Return the memory that `device` can still give: of a CPU, what the host and its control group leave."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(_host_free_bytes(), _control_group_free_bytes())


def _host_free_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        # No Linux: half of the memory is taken to be in use.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _control_group_free_bytes() -> int:
    try:
        limit = (CONTROL_GROUP / "memory.max").read_text("ascii").strip()
        return int(limit) - int((CONTROL_GROUP / "memory.current").read_text("ascii"))
    except (OSError, ValueError):
        # No control group, or one whose limit is "max".
        return 2**63 - 1


def replica_chunks(
    replicas: Sequence[Tensor], chunk: int, device: torch.device, dtype: torch.dtype
) -> Iterator[Tensor]:
    """Yield the replicas in order as `dtype` on `device`, shape (C, N, M) with C at most `chunk`.

    What is yielded is a buffer, overwritten when the next one is asked for.
    """
    batches = [replicas[start : start + chunk] for start in range(0, len(replicas), chunk)]
    if device.type == "cuda" and replicas[0].device.type == "cpu":
        yield from _staged_chunks(batches, device, dtype)
        return
    buffer_CNM = torch.empty((len(batches[0]), *replicas[0].shape), dtype=dtype, device=device)
    for batch in batches:
        for row_NM, replica in zip(buffer_CNM, batch, strict=False):
            row_NM.copy_(replica)
        yield buffer_CNM[: len(batch)]


@dataclass(frozen=True, slots=True)
class _Stage:
    """A pinned buffer, its copy on the device, and the events that say when each may be written again."""

    pinned_CNM: Tensor
    on_device_CNM: Tensor
    arrived: torch.cuda.Event
    used: torch.cuda.Event

    def send(self, batch: Sequence[Tensor], copy_stream: torch.cuda.Stream) -> None:
        self.arrived.synchronize()
        for row_NM, replica in zip(self.pinned_CNM, batch, strict=False):
            row_NM.copy_(replica)
        copy_stream.wait_event(self.used)
        with torch.cuda.stream(copy_stream):
            self.on_device_CNM[: len(batch)].copy_(self.pinned_CNM[: len(batch)], non_blocking=True)
            self.arrived.record(copy_stream)


def _make_stage(batch: Sequence[Tensor], copy_stream: torch.cuda.Stream) -> _Stage:
    shape, dtype = (len(batch), *batch[0].shape), batch[0].dtype
    on_device_CNM = torch.empty(shape, dtype=dtype, device="cuda")
    # An error may free the buffer while it is still being written to.
    on_device_CNM.record_stream(copy_stream)
    arrived, used = torch.cuda.Event(), torch.cuda.Event()  # type: ignore[no-untyped-call]
    return _Stage(torch.empty(shape, dtype=dtype, pin_memory=True), on_device_CNM, arrived, used)


def _staged_chunks(batches: Sequence[Sequence[Tensor]], device: torch.device, dtype: torch.dtype) -> Iterator[Tensor]:
    """Send each batch, in the dtype that it has, on a copy stream while the one before it is worked on."""
    with torch.cuda.device(device):
        copy_stream, compute_stream = torch.cuda.Stream(), torch.cuda.current_stream()  # type: ignore[no-untyped-call]
        stages = [_make_stage(batches[0], copy_stream) for _ in batches[:2]]
        # The device buffers may reuse memory that work of the compute stream still reads.
        copy_stream.wait_stream(compute_stream)
        stages[0].send(batches[0], copy_stream)
        for index, batch in enumerate(batches):
            if index + 1 < len(batches):
                stages[(index + 1) % 2].send(batches[index + 1], copy_stream)
            stage = stages[index % 2]
            compute_stream.wait_event(stage.arrived)
            yield stage.on_device_CNM[: len(batch)].to(dtype)
            stage.used.record(compute_stream)
