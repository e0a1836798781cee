"""Real ranks: forked processes that form a process group, over gloo or NCCL.

Each rank has what `torchrun` sets: RANK, WORLD_SIZE, LOCAL_RANK and a default process group; they meet through a file.
All of them are killed at the end.
"""

import contextlib
import datetime
import os
import select
import shutil
import signal
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, Sequence

import torch
import torch.distributed as dist

from ..serve import families, placeholders
from ..serve.messages import CONTROL, Lines, Writer, decoded, new_token
from .selfcheck import expect

_PIECE_BYTES = 1 << 16
# How long the others may continue after a rank ended with an error: they may be waiting for it.
_PATIENCE_S = 3.0
Message = Dict[str, Any]
Body = Callable[[int], Iterator[Message]]


class RanksFailed(Exception):
    """A rank did not finish in time (`reason` timeout), or its process exited (exit)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def run_ranks(world_size: int, body: Body, limit_s: float, device: str = "cpu") -> List[List[Message]]:
    """Return what `body(rank)` yields in each of `world_size` processes, by rank: values for JSON.

    If a rank's body raises, its last message is `{"rank_raised": text}`, and the others get a few seconds to end.
    Raises RanksFailed if a rank does not finish within `limit_s`, or exits. No process is left in any case.
    """
    folder = tempfile.mkdtemp(prefix="ranks-")
    ranks: List[_Rank] = []
    try:
        for number in range(world_size):
            messages = _messages_of(number, world_size, body, folder, limit_s, device)
            ranks.append(_Rank(number, messages, [rank.results_fd for rank in ranks]))
        _collect(ranks, limit_s)
        placeholders.raise_if_said(rank.messages[-1].get("rank_raised", "") for rank in ranks if rank.messages)
    finally:
        for rank in ranks:  # The probe's own process group ends their children.
            os.kill(rank.pid, signal.SIGKILL)
            os.waitpid(rank.pid, 0)
            os.close(rank.results_fd)
        shutil.rmtree(folder, ignore_errors=True)
    return [rank.messages for rank in ranks]


def _collect(ranks: List["_Rank"], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    waiting = {rank.results_fd: rank for rank in ranks}
    while waiting and time.monotonic() < deadline:
        readable, _, _ = select.select(list(waiting), [], [], 0.1)
        for fd in readable:
            is_open = waiting[fd].read()
            if (not is_open or waiting[fd].finished) and not waiting.pop(fd).is_well():
                deadline = min(deadline, time.monotonic() + _PATIENCE_S)
    late = list(waiting.values())
    for rank in ranks:
        if rank.ended_itself:
            text = "the process of rank {} of {} ended itself (sys.exit, os._exit or a crash)"
            raise RanksFailed("exit", text.format(rank.number, len(ranks)))
    if late and all(rank.is_well() for rank in ranks if rank not in late):
        done = max(len(rank.messages) for rank in ranks)
        text = "rank {} of {} did not respond within {:g} s (after {} results of others); every rank was ended"
        raise RanksFailed("timeout", text.format(late[0].number, len(ranks), limit_s, done))
    for rank in late:
        rank.messages.append({"rank_raised": "waited for a rank that had ended"})


class _Rank:
    """One forked rank, its pipe, and its messages."""

    def __init__(self, number: int, messages: Iterator[Message], fds_of_elder: Sequence[int]) -> None:
        self.number = number
        self.messages: List[Message] = []
        self.finished = self.ended_itself = False
        self._lines = Lines(token := new_token())
        self.pid, self.results_fd = families.fork_with_pipe(fds_of_elder)
        if self.pid == 0:
            _send_all(messages, Writer(self.results_fd, token))

    def read(self) -> bool:
        """Read one chunk of its messages; return False at its end."""
        data = os.read(self.results_fd, _PIECE_BYTES)
        for line in self._lines.feed(data):
            if line.startswith(CONTROL):
                self.finished = True
            elif decoded(line):
                self.messages.append(decoded(line))
        if not data and not self.finished and not self._has_raised():
            self.ended_itself = True
        return bool(data)

    def is_well(self) -> bool:
        """Return whether it ran to the end without an error."""
        return self.finished and not self._has_raised()

    def _has_raised(self) -> bool:
        return bool(self.messages) and "rank_raised" in self.messages[-1]


def _send_all(messages: Iterator[Message], writer: Writer) -> NoReturn:
    """Run a rank: send its messages, and wait to be killed."""
    try:
        families.die_with_parent()
        nowhere = os.open(os.devnull, os.O_WRONLY)  # Libraries print about their connections.
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        for message in messages:
            writer.send(message)
        writer.control({})
        while True:  # Leaving now would break the others' connections.
            signal.pause()
    except BaseException as error:
        text = "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:300])
        writer.send({"rank_raised": text})
    finally:
        os._exit(0)  # An ordinary exit would wait for a running collective.


def _messages_of(
    number: int, world_size: int, body: Body, folder: str, limit_s: float, device: str
) -> Iterator[Message]:
    """Join the process group and yield what the body yields."""
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork, and waiting for them hangs.
    environment = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size}
    os.environ.update({name: str(value) for name, value in environment.items()})
    with contextlib.suppress(OSError):  # gloo reads the same folder, which a sandbox may hide.
        if "lo" in os.listdir("/sys/class/net"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if device == "cuda":
        torch.cuda.set_device(number)
    dist.init_process_group(
        backend="nccl" if device == "cuda" else "gloo",
        store=dist.FileStore(  # type: ignore[attr-defined]
            os.path.join(folder, "store"), world_size
        ),
        rank=number,
        world_size=world_size,
        timeout=datetime.timedelta(seconds=2 * limit_s),  # run_ranks enforces the limit itself
    )
    dist.barrier()
    yield from body(number)


def why_not(device: str, world_size: int) -> Optional[str]:
    """Return why so many ranks cannot run on a device, without initializing CUDA; None if they can."""
    if not dist.is_available():
        return "this torch has no torch.distributed"
    if device == "cuda":
        found = torch.cuda.device_count()
        if found < world_size or not dist.is_nccl_available():
            return "NCCL needs one GPU per rank: {} ranks, and {} GPUs".format(world_size, found)
        return None
    return None if dist.is_gloo_available() else "this torch has no gloo"


def self_check(device: str, roots: Any) -> None:
    """Check that two ranks add 1 and 2."""

    def total(rank: int) -> Iterator[Message]:
        number = torch.tensor([rank + 1.0])
        dist.all_reduce(number)
        yield {"sum": number.item()}

    if why_not("cpu", 2) is None:
        expect("process group", run_ranks(2, total, 30.0), [[{"sum": 3.0}]] * 2, "the sum of 1 and 2 over two ranks")
