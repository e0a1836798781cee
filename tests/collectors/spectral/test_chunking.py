"""How many replicas are worked on at once: within a share of the free memory, and no more than help."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

from auditkit.collectors.spectral import chunking
from auditkit.collectors.spectral.chunking import choose_chunk, free_memory_bytes, replica_bytes, replica_chunks

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("free_replicas", "replica_count", "expected"),
    [(1000, 64, 8), (1000, 5, 5), (12, 64, 3), (4, 64, 1), (0, 64, 1), (-5, 64, 1)],
)
def test_a_chunk_takes_a_quarter_of_the_free_memory_at_most(
    free_replicas: int, replica_count: int, expected: int
) -> None:
    """From 1, whatever there is, to 8; never more than there are replicas."""
    per_replica = replica_bytes(1024, 512, torch.float32)
    assert choose_chunk(replica_count, per_replica, free_replicas * per_replica) == expected


def test_the_bytes_of_a_replica_are_counted_in_the_dtype_that_is_worked_in() -> None:
    assert replica_bytes(10, 20, torch.float32) == 4 * (3 * 200 + 2 * 10 * 30 + 8 * 100)
    assert replica_bytes(20, 10, torch.float64) == 2 * replica_bytes(10, 20, torch.float32)


def test_the_free_memory_of_the_host_is_at_most_what_the_kernel_says() -> None:
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    total = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal"))
    assert 0 < free_memory_bytes(CPU) < total


def test_a_control_group_bounds_the_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the host has more than the process may take."""
    (tmp_path / "memory.max").write_text("5000\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("2000\n", encoding="ascii")
    monkeypatch.setattr(chunking, "CONTROL_GROUP", tmp_path)
    assert free_memory_bytes(CPU) == 3000
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert free_memory_bytes(CPU) > 3000


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_chunks_are_the_replicas_in_order_and_promoted(dtype: torch.dtype) -> None:
    grads_RNM = torch.arange(5 * 6).reshape(5, 2, 3).to(dtype)
    promoted = torch.promote_types(dtype, torch.float32)
    chunks = [part.clone() for part in replica_chunks(list(grads_RNM), 2, CPU, promoted)]
    assert [len(part) for part in chunks] == [2, 2, 1]
    assert chunks[0].dtype == promoted
    assert torch.equal(torch.cat(chunks), grads_RNM.to(promoted))


class PretendEvent:
    """Logs what a stream or the host does with it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def record(self, stream: str) -> None:
        self.log.append(f"{stream} records {self.name}")

    def synchronize(self) -> None:
        self.log.append(f"host waits for {self.name}")


class PretendStream(str):
    log: list[str]

    def wait_event(self, event: PretendEvent) -> None:
        self.log.append(f"{self} waits for {event.name}")

    def wait_stream(self, other: str) -> None:
        self.log.append(f"{self} waits for {other}")


@pytest.fixture
def device_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for CUDA's streams and events, with buffers on the CPU, and return what they are asked."""
    log: list[str] = []

    def stream(name: str) -> PretendStream:
        made = PretendStream(name)
        made.log = log
        return made

    @contextmanager
    def anywhere(_: object) -> Iterator[None]:
        yield

    def stage(batch: list[Tensor], _: object) -> chunking._Stage:
        shape, events = (len(batch), *batch[0].shape), [PretendEvent("arrived", log), PretendEvent("used", log)]
        return chunking._Stage(torch.empty(shape), torch.empty(shape), *events)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.cuda, "Stream", lambda: stream("copies"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream("work"))
    monkeypatch.setattr(torch.cuda, "device", anywhere)
    monkeypatch.setattr(torch.cuda, "stream", anywhere)
    monkeypatch.setattr(chunking, "_make_stage", stage)
    return log


def test_the_next_chunk_is_sent_before_this_one_is_worked_on(device_log: list[str]) -> None:
    """Two buffers: written after the copy from them, sent after the work on their like, worked on after arrival.

    The device itself is tested in tests/gpu; here, on any machine, what is asked of it and in which order.
    """
    grads_RNM = torch.arange(5.0)[:, None, None].expand(-1, 2, 3)
    seen = []
    for part in replica_chunks(list(grads_RNM), 2, torch.device("cuda", 0), torch.float32):
        device_log.append(f"worked on {part[0, 0, 0]:.0f}")
        seen.append(part.clone())
    assert torch.equal(torch.cat(seen), grads_RNM)
    send = ["host waits for arrived", "copies waits for used", "copies records arrived"]
    arrive = "work waits for arrived"
    assert device_log == [
        "copies waits for work",
        *send, *send, arrive, "worked on 0", "work records used",
        *send, arrive, "worked on 2", "work records used",
        arrive, "worked on 4", "work records used",
    ]  # fmt: skip
