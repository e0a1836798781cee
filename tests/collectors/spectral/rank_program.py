"""One rank of test_runner: runs the scenarios that are named, each with its own assertions.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=... python rank_program.py FOLDER SCENARIO...
    torchrun --nproc-per-node 2 rank_program.py FOLDER SCENARIO...

Exits 0 where every assertion holds.
"""

import math
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from auditkit.collectors.spectral.collected import ReplicaGradients
from auditkit.collectors.spectral.echoes import SpectralEchoes
from auditkit.collectors.spectral.gather import Link, gather_stack, gather_stacks, transport_device
from auditkit.collectors.spectral.peers import Peers, RankLostError
from auditkit.collectors.spectral.runner import SpectralRun, measure_stack
from auditkit.collectors.spectral.stream import read_spectra
from auditkit.collectors.spectral.svd import AlignedSvds
from tests.collectors.test_memory import peak_bytes

SHAPES = {"blocks.0.tall": (9, 3), "blocks.0.wide": (4, 7), "blocks.1.square": (5, 5)}
LOST_AFTER_S = 8.0


def whole_stacks(replicas: int = 6, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """The gradients of all ranks: a signal and noise for each parameter, shape (replicas, N, M)."""
    generator = torch.Generator().manual_seed(0)
    stacks = {}
    for name, shape in SHAPES.items():
        signal_NM = torch.randn(shape, generator=generator)
        stacks[name] = (signal_NM + 0.3 * torch.randn(replicas, *shape, generator=generator)).to(dtype) * 1e-6
    return stacks


def share(rank: int, size: int, replicas: int = 6, dtype: torch.dtype = torch.float32) -> ReplicaGradients:
    """The replicas of one rank, in order of ranks; as even as they can be, which 6 are not over 4 ranks."""
    stacks = whole_stacks(replicas, dtype)
    mine = ReplicaGradients()
    for index in range(rank * replicas // size, (rank + 1) * replicas // size):
        mine.add({name: stack[index] for name, stack in stacks.items()})
    return mine


def rank_and_size() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def run(folder: Path, **options: Any) -> SpectralRun:
    return SpectralRun(folder, settings={"seed": 0}, **{"lost_after_s": LOST_AFTER_S, "stuck_after_s": 20.0} | options)


def refused(what: type[BaseException], words: str, action: Callable[[], object]) -> str:
    """Return the message, with `words` in it, of the error that `action` must raise on this rank."""
    with pytest.raises(what, match=re.escape(words)) as caught:
        action()
    return str(caught.value)


def gathered(folder: Path) -> None:
    """Owners receive every replica of every dtype bit for bit, in order, through chunks of any size."""
    rank, size = rank_and_size()
    peers = Peers(dist.distributed_c10d._get_default_store(), rank, size, lost_after_s=5.0, stuck_after_s=20.0)
    group = dist.new_group(timeout=timedelta(seconds=20))
    owners = {name: index % size for index, name in enumerate(sorted(SHAPES))}
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        for chunk_bytes in (7, 64, 10**6):
            mine = share(rank, size, 5, dtype)
            shares = [share(other, size, 5, dtype) for other in range(size)]
            counts = {name: [part.shape(name)[0] for part in shares] for name in SHAPES}
            assert size == 1 or len(set(counts["blocks.0.wide"])) > 1  # uneven
            stacks = gather_stacks(mine, owners, counts, Link(group, peers, transport_device(group), chunk_bytes))
            assert sorted(stacks) == [name for name, owner in owners.items() if owner == rank]
            assert mine.names() == ()
            for name, stack in stacks.items():
                assert torch.equal(stack, whole_stacks(5, dtype)[name]), (name, dtype, chunk_bytes)
    assert not torch.equal(whole_stacks(5)["blocks.0.wide"], whole_stacks(5)["blocks.0.wide"].flip(0))  # control
    peers.part()


def gather_memory(folder: Path) -> None:
    """Beside the stack an owner needs two chunks for each rank, ours and gloo's, and one; a control has no chunks."""
    rank, size = rank_and_size()
    peers = Peers(dist.distributed_c10d._get_default_store(), rank, size, lost_after_s=30.0, stuck_after_s=60.0)
    group = dist.new_group(timeout=timedelta(seconds=60))
    counts = [4 + other for other in range(size)]  # uneven, so that nothing can be received in place at the end
    local_RNM = torch.ones(counts[rank], 256, 256)
    stack_bytes = sum(counts) * local_RNM[0].nbytes
    chunks = 2 * size + 1
    for chunk_bytes, most in ((2**16, chunks * 2**16), (2**30, chunks * max(counts) * 2**18)):
        link = Link(group, peers, transport_device(group), chunk_bytes)
        extra = peak_bytes(lambda link=link: gather_stack("big", local_RNM, 0, counts, link))  # type: ignore[misc]
        extra -= stack_bytes if rank == 0 else 0
        assert extra <= most, (rank, chunk_bytes, extra)
    assert rank > 0 or extra > 4 * chunks * 2**16  # the control
    peers.part()


def whole(folder: Path) -> None:
    """Every rank writes its own parameters, rank 0 merges, and a second run has nothing to measure."""
    measured: list[int] = []

    def counted(grads_RNM: Tensor) -> tuple[AlignedSvds, SpectralEchoes]:
        measured.append(len(grads_RNM))
        return measure_stack(grads_RNM)

    rank, size = rank_and_size()
    with run(folder, array_dtype="float32", chunk_bytes=50, measure=counted) as first:
        assert not first.is_complete(3)
        replicas = share(rank, size)
        path = first.measure(3, replicas)
        assert replicas.names() == ()
        assert path == folder / "step-000003.csv"
        assert path.exists()
        assert first.is_complete(3)
        mine = len(measured)
    with run(folder, array_dtype="float32", measure=counted) as again:
        again.measure(3, share(rank, size))
        assert len(measured) == mine  # complete: nothing was measured
        if rank == 0:
            path.unlink()
            if size > 1:
                again.rank_path(3, 1).unlink()
        dist.barrier()
        again.measure(3, share(rank, size))
        # Only the rank whose file was missing measures again; on one rank its file serves.
        assert len(measured) == (2 * mine if rank == 1 else mine)
    compressed = folder.with_name(folder.name + "-gz")
    with run(compressed, compress=True, directions=2) as packed:
        assert packed.measure(0, share(rank, size, dtype=torch.bfloat16)).name == "step-000000.csv.gz"


def late(folder: Path) -> None:
    """Rank 1 begins later than a heart may be silent, which is no reason to give it up."""
    if dist.get_rank() == 1:
        time.sleep(1.5 * LOST_AFTER_S)
    with run(folder, stuck_after_s=100 * LOST_AFTER_S) as one:
        assert not one.is_complete(0)


def never(folder: Path) -> None:
    """Rank 1 does not begin at all."""
    if dist.get_rank() == 1:
        time.sleep(600)
    with run(folder, stuck_after_s=LOST_AFTER_S / 2):
        pass


def bad_input(folder: Path) -> None:
    """All ranks raise the same ValueError, at once, and the next run of the same processes works."""
    rank, size = rank_and_size()

    def measuring(step: int, replicas: ReplicaGradients, **options: Any) -> Callable[[], object]:
        def measure() -> None:
            with run(folder, **options) as one:
                one.measure(step, replicas)

        return measure

    def spoiled(change: Callable[[dict[str, Tensor]], object]) -> ReplicaGradients:
        """This rank's share; the last gradients of rank 1 are changed."""
        gradients = {name: torch.ones(shape) for name, shape in SHAPES.items()}
        if rank == 1:
            change(gradients)
        replicas = ReplicaGradients()
        for _ in range(2):
            replicas.add(gradients)
        return replicas

    for words, replicas in {
        "rank 1: replica 0 of 'blocks.0.wide' holds 1 NaN or infinite elements": spoiled(
            lambda gradients: gradients["blocks.0.wide"].__setitem__((0, 0), math.nan)
        ),
        "rank 1: replica 0 of 'blocks.0.tall' holds 27 NaN or infinite": spoiled(
            lambda gradients: gradients["blocks.0.tall"].fill_(-math.inf)
        ),
        "'blocks.0.wide' is 4 x 7 float32 on rank 0 and 7 x 4 float32 on rank 1": spoiled(
            lambda gradients: gradients.update({"blocks.0.wide": torch.ones(7, 4)})
        ),
        "'blocks.1.square' is 5 x 5 float32 on rank 0 and 5 x 5 float16 on rank 1": spoiled(
            lambda gradients: gradients.update({"blocks.1.square": torch.ones(5, 5, dtype=torch.float16)})
        ),
        "rank 0 holds gradients of 'blocks.0.tall', rank 1 does not": spoiled(
            lambda gradients: gradients.pop("blocks.0.tall")
        ),
        "rank 1 holds gradients of 'head', rank 0 does not": spoiled(
            lambda gradients: gradients.update({"head": torch.ones(2, 2)})
        ),
        "'blocks.0.tall' has 2 replicas over all ranks: an echo needs at least 3": share(rank, size, 2),
        "no rank holds any gradients": ReplicaGradients(),
    }.items():
        refused(ValueError, words, measuring(0, replicas))
    refused(
        ValueError,
        "rank 1 has other settings than rank 0: directions is 2, not 1",
        measuring(0, ReplicaGradients(), directions=1 + rank),
    )
    refused(RankLostError, "'compare the gradients of step", measuring(rank, share(rank, size)))
    assert [path.name for path in folder.iterdir()] == []  # nothing was written for any of it
    measuring(0, share(rank, size))()
    refused(ValueError, "blocks.0.wide is 5 x 4 x 7 float32, not 6 x 4 x 7", measuring(0, share(rank, size, 5)))
    refused(ValueError, 'array_dtype is "float32", not "float16"', measuring(0, None, array_dtype="float32"))  # type: ignore[arg-type]
    part = folder / f"step-000001.rank-1-of-{size}.csv"
    dist.barrier()
    if rank == 0:
        part.write_text("half a file")
    dist.barrier()
    refused(
        ValueError, "rank-1-of-2.csv is not a whole file of spectra: line 1 breaks off", measuring(1, share(rank, size))
    )
    assert not (folder / "step-000001.csv").exists()


def one_fails(folder: Path) -> None:
    """The disk of rank 1 is full, its measurement fails, it raises, it leaves: rank 0 says so, nothing half there."""
    rank, size = rank_and_size()

    def full_disk() -> None:
        with run(folder) as one:
            limit = resource.getrlimit(resource.RLIMIT_FSIZE)
            if rank == 1:
                resource.setrlimit(resource.RLIMIT_FSIZE, (400, limit[1]))
            try:
                one.measure(0, share(rank, size))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    def failing_measurement() -> None:
        def measure(grads_RNM: Tensor) -> tuple[AlignedSvds, SpectralEchoes]:
            if rank == 1:
                raise ArithmeticError("no convergence")
            return measure_stack(grads_RNM)

        with run(folder, measure=measure) as one:
            one.measure(1, share(rank, size))

    def raising_script() -> None:
        with run(folder) as one:
            if rank == 1:
                raise KeyError("a bug of the script")
            one.measure(2, share(rank, size))

    def leaving_script() -> None:
        with run(folder) as one:
            if rank == 0:
                one.measure(3, share(rank, size))

    for action, error, words in (
        (full_disk, OSError, "File too large; nothing was written"),
        (failing_measurement, ArithmeticError, "no convergence"),
        (raising_script, KeyError, "a bug of the script"),
    ):
        if rank == 1:
            refused(error, words, action)
        else:
            assert "rank 1 stopped: " + error.__name__ in refused(RankLostError, words, action)
    refused(RankLostError, "rank 1 is at 'leave'" if rank == 0 else "rank 0 is at 'compare", leaving_script)
    dist.barrier()
    parts = sorted(path for path in folder.iterdir() if path.name != "spectra.json")
    # Rank 0 had its file of a step, or stopped before: what is there is whole, and nothing is merged.
    assert {path.name for path in parts} <= {f"step-00000{step}.rank-0-of-2.csv" for step in (0, 1)}
    assert all(list(read_spectra(path)) for path in parts)


def killed(folder: Path) -> None:
    """Rank 1 is killed while it measures."""
    rank, size = rank_and_size()

    def measure(grads_RNM: Tensor) -> tuple[AlignedSvds, SpectralEchoes]:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return measure_stack(grads_RNM)

    with run(folder, measure=measure) as one:
        one.measure(0, share(rank, size))


def killed_once(folder: Path) -> None:
    """Rank 1 is killed while it measures step 1, unless torchrun has started it again."""
    rank, size = rank_and_size()

    def measure(grads_RNM: Tensor) -> tuple[AlignedSvds, SpectralEchoes]:
        if rank == 1 and (folder / "step-000003.csv").exists() and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        return measure_stack(grads_RNM)

    with run(folder, array_dtype="float32", measure=measure) as one:
        for step in (3, 4):
            print(f"step {step} is complete: {one.is_complete(step)}", flush=True)
            one.measure(step, share(rank, size))


def stopped(folder: Path) -> None:
    """The last rank is stopped, not killed: its connections stay open."""
    rank, size = rank_and_size()
    with run(folder) as one:
        one.measure(0, share(rank, size))
        if rank == size - 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        one.measure(1, share(rank, size))


def stopped_in_gather(folder: Path) -> None:
    """Rank 1 is stopped when all others wait for its replicas in a collective."""

    class Stopping(ReplicaGradients):
        def take(self, name: str) -> Tensor:
            if dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            return super().take(name)

    replicas = Stopping()
    for _ in range(3):
        replicas.add({name: torch.ones(shape) for name, shape in SHAPES.items()})
    with run(folder, stuck_after_s=4 * LOST_AFTER_S) as one:
        one.measure(0, replicas)


def store_stopped(folder: Path) -> None:
    """Rank 0, whose process holds the store, is stopped."""
    rank, size = rank_and_size()
    with run(folder) as one:
        one.measure(0, share(rank, size))
        if rank == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        one.measure(1, share(rank, size))


def stuck(folder: Path) -> None:
    """Rank 1 sleeps, with a heart that beats."""
    rank, size = rank_and_size()
    with run(folder, stuck_after_s=2 * LOST_AFTER_S) as one:
        if rank == 1:
            time.sleep(300)
        one.measure(0, share(rank, size))


def alone(folder: Path) -> None:
    """The control of the four above: the same wait, by a barrier of the process group, ends when gloo's time is up."""
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.barrier()


def main() -> None:
    folder, scenarios = Path(sys.argv[1]), sys.argv[2:]
    # Longer than any test waits: whatever ends in time has not been ended by gloo.
    dist.init_process_group("gloo", timeout=timedelta(seconds=600))
    for scenario in scenarios:
        (folder / scenario).mkdir(exist_ok=True)
        globals()[scenario](folder / scenario)
        dist.barrier()
        print(f"rank {dist.get_rank()}: {scenario} done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
