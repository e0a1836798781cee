"""Jobs as processes of this machine: as many at a time as memory, graphics cards and the user allow."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.sweep.engines.node import last_words, reason_of, start_command
from auditkit.sweep.engines.protocol import Ended, EngineSettings, Task

_GRACE_S = 15.0
# What was killed is gone as soon as the kernel has taken its memory back.
_GONE_WITHIN_S = 2.0
# What waits behind the running ones, so that a small job can begin where a large one does not fit.
_WAITING_EACH = 4
_OPTIONS = ("memory_mb", "gpus")


@dataclass
class _Running:
    task: Task
    process: subprocess.Popen[bytes]
    pidfd: int
    cards: tuple[str, ...]
    log: Path


class LocalPool:
    """At most `jobs` processes, whose declared memory never sums to more than this machine has.

    Options: `memory_mb` and `gpus` instead of what the machine has. Raises BadInputError for others.
    """

    # They end with their driver.
    left_behind: Container[str] = ()

    def __init__(self, settings: EngineSettings) -> None:
        unknown = next((name for name in settings.options if name not in _OPTIONS), None)
        if unknown is not None:
            raise BadInputError(f"the local engine has no option '{unknown}'", f"one of {', '.join(_OPTIONS)}")
        self._logs = settings.folder / "logs"
        self._jobs = settings.jobs or os.cpu_count() or 1
        self._memory_mb = _number(settings.options, "memory_mb", machine_memory_mb)
        self._cards = list(_cards(_number(settings.options, "gpus", lambda: -1)))
        self._all_cards = len(self._cards)
        self._waiting: deque[Task] = deque()
        self._running: dict[int, _Running] = {}
        self._ended: list[Ended] = []
        self._selector = selectors.DefaultSelector()
        self._node = socket.gethostname()

    @property
    def capacity(self) -> int:
        return self._jobs * (1 + _WAITING_EACH)

    def submit(self, task: Task) -> None:
        needed = task.resources.memory_mb
        if needed > self._memory_mb:
            why = f"it needs {needed:,} MB of memory, and this machine has {self._memory_mb:,} MB"
            self._ended.append(Ended(task.key, None, why, self._node, again=False))
            return
        self._waiting.append(task)
        self._start_what_fits()

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        self._start_what_fits()
        if self._running and not self._ended:
            for key, _ in self._selector.select(timeout_s):
                self._reap(key.fd)
        elif not self._ended:
            time.sleep(min(timeout_s, 0.1))
        ended, self._ended = self._ended, []
        self._start_what_fits()
        return ended

    def close(self) -> None:
        self._waiting.clear()
        running = list(self._running.values())
        for one in running:
            with contextlib.suppress(ProcessLookupError):
                one.process.terminate()
        deadline = time.monotonic() + _GRACE_S
        for one in running:
            # It removes its copy of the checkout and ends its workers; whoever does not, is ended with them.
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(max(0.0, deadline - time.monotonic()))
            self._reap(one.pidfd)
        self._selector.close()

    def _start_what_fits(self) -> None:
        """Start what waits in its order; one that does not fit now lets smaller ones go first."""
        left_mb = self._memory_mb - sum(one.task.resources.memory_mb for one in self._running.values())
        kept: deque[Task] = deque()
        while self._waiting and len(self._running) < self._jobs:
            task = self._waiting.popleft()
            # Where there are fewer cards than it asks for, it says so itself: that is an answer, too.
            cards = min(task.resources.gpus, self._all_cards)
            if task.resources.memory_mb <= left_mb and cards <= len(self._cards):
                left_mb -= task.resources.memory_mb
                self._start(task, tuple(self._cards.pop(0) for _ in range(cards)))
            else:
                kept.append(task)
        self._waiting.extendleft(reversed(kept))

    def _start(self, task: Task, cards: tuple[str, ...]) -> None:
        log = self._logs / f"{task.key}.log"
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(cards)} if self._all_cards else None
        try:
            process = start_command(task.command, log, environment)
        except OSError as error:
            self._cards += cards
            self._ended.append(Ended(task.key, None, f"it could not be started: {error.strerror}", self._node))
            return
        pidfd = os.pidfd_open(process.pid)
        self._running[pidfd] = _Running(task, process, pidfd, cards, log)
        self._selector.register(pidfd, selectors.EVENT_READ)

    def _reap(self, pidfd: int) -> None:
        one = self._running.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        # Its workers die with it by the kernel's word; what else it may have started is of its session.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(one.process.pid, signal.SIGKILL)
        code = one.process.wait()
        deadline = time.monotonic() + _GONE_WITHIN_S
        with contextlib.suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                os.killpg(one.process.pid, 0)
                time.sleep(0.005)
        assert one.process.stdin is not None
        one.process.stdin.close()
        self._cards += one.cards
        reason = "" if code == 0 else reason_of(code, last_words(one.log))
        if code == 0:
            one.log.unlink(missing_ok=True)
        self._ended.append(Ended(one.task.key, code, reason, self._node))


def machine_memory_mb() -> int:
    """The memory of this machine in MB, or that of the control group that this process is in, where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [total]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(name).read_text(encoding="ascii")))
    return min(limits) // 1_000_000


def _cards(count: int) -> Sequence[str]:
    """The names of the graphics cards that jobs may have; `count` of -1 are all that are there."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = [name for name in (named or "").split(",") if name]
    if named is None:
        found = sorted((path.name[6:] for path in Path("/dev").glob("nvidia[0-9]*")), key=int)
    return found if count < 0 else [*found, *map(str, range(len(found), count))][:count]


def _number(options: object, name: str, default: Callable[[], int]) -> int:
    assert hasattr(options, "get")
    text = options.get(name)
    if text is None:
        return default()
    if not re.fullmatch(r"\d+", text):
        raise BadInputError(f"the option {name} of the local engine is a whole number, not {text!r}")
    return int(text)
