"""Jobs as processes of this machine: as many at a time as memory, GPUs and the user allow."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from collections import deque
from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.sweep.engines.node import end_command, start_command
from auditkit.sweep.engines.protocol import Ended, EngineSettings, Task


@dataclass
class _Running:
    task: Task
    process: subprocess.Popen[bytes]
    cards: tuple[str, ...]
    log: Path


class LocalPool:
    """At most `jobs` processes, whose declared memory never sums to more than this machine has, started in order.

    Options: `memory_mb` and `gpus` instead of what the machine has. Raises BadInputError for others.
    """

    left_behind: Container[str] = ()  # the jobs end with their driver

    def __init__(self, settings: EngineSettings) -> None:
        settings.check_options("local", ("memory_mb", "gpus"))
        numbers = {name: _number(name, text) for name, text in settings.options.items()}
        self._logs, self._node = settings.folder / "logs", socket.gethostname()
        self._jobs = settings.jobs or os.cpu_count() or 1
        self._memory_mb = numbers.get("memory_mb") or machine_memory_mb()
        self._cards = list(map(str, range(numbers["gpus"]))) if "gpus" in numbers else _cards()
        self._all_cards = len(self._cards)
        self._waiting: deque[Task] = deque()
        self._running: dict[int, _Running] = {}
        self._ended: list[Ended] = []

    @property
    def capacity(self) -> int:
        return self._jobs

    def submit(self, task: Task) -> None:
        needed = task.resources.memory_mb
        if needed > self._memory_mb:
            why = f"it needs {needed:,} MB of memory, and this machine has {self._memory_mb:,} MB"
            self._ended.append(Ended(task.key, None, why, self._node, again=False))
            return
        self._waiting.append(task)
        self._start_what_fits()

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        if self._running and not self._ended:
            for pidfd in wait(list(self._running), timeout_s):
                self._reap(pidfd)  # type: ignore[arg-type]
        ended, self._ended = self._ended, []
        self._start_what_fits()
        return ended

    def close(self) -> None:
        self._waiting.clear()
        with ThreadPoolExecutor(len(self._running) or 1) as threads:
            list(threads.map(self._reap, list(self._running)))

    def _start_what_fits(self) -> None:
        while self._waiting and len(self._running) < self._jobs:
            need = self._waiting[0].resources
            # With fewer GPUs than it needs, the job itself reports that: a result, too.
            cards = min(need.gpus, self._all_cards)
            used_mb = sum(one.task.resources.memory_mb for one in self._running.values())
            if used_mb + need.memory_mb > self._memory_mb or cards > len(self._cards):
                return
            self._start(self._waiting.popleft(), tuple(self._cards.pop(0) for _ in range(cards)))

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
        self._running[pidfd] = _Running(task, process, cards, log)

    def _reap(self, pidfd: int) -> None:
        one = self._running.pop(pidfd)
        os.close(pidfd)
        code, reason = end_command(one.process, one.log)
        self._cards += one.cards
        self._ended.append(Ended(one.task.key, code, reason, self._node))


def machine_memory_mb() -> int:
    """Return the memory of this machine in MB, or that of this process's control group if that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(name).read_text(encoding="ascii")))
    return min(limits) // 1_000_000


def _cards() -> list[str]:
    """Return the names of the GPUs that jobs may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    return sorted((path.name[6:] for path in Path("/dev").glob("nvidia[0-9]*")), key=int)


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise BadInputError(f"the option {name} of the local engine is a whole number, not {text!r}")
    return int(text)
