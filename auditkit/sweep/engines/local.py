"""Jobs as processes of this machine: as many at a time as memory, GPUs and the user allow."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from auditkit.sweep.engines.engine import Ended, Task, end_command, start_command

_LOOK_S = 0.02


class LocalPool:
    """At most `jobs` processes, whose declared memory never sums to more than this machine has, started in order."""

    OPTIONS = ()

    def __init__(self, folder: Path, jobs: int | None, _options: object = None) -> None:
        self._logs, self._node = folder / "logs", socket.gethostname()
        self.capacity = jobs or os.cpu_count() or 1
        self._memory_mb, self._cards = _machine_memory_mb(), _machine_cards()
        self._all_cards = len(self._cards)
        self._waiting: deque[Task] = deque()
        self._running: dict[str, tuple[Task, subprocess.Popen[bytes], list[str]]] = {}
        self._ended: list[Ended] = []

    def submit(self, task: Task) -> None:
        needed = task.resources.memory_mb
        if needed > self._memory_mb:
            why = f"it needs {needed:,} MB of memory, and this machine has {self._memory_mb:,} MB"
            self._ended.append(Ended(task.key, None, why, self._node, again=False))
            return
        self._waiting.append(task)
        self._start_what_fits()

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        deadline = time.monotonic() + timeout_s
        while self._running and not self._ended and time.monotonic() < deadline:
            over = [key for key, (_, process, _) in self._running.items() if process.poll() is not None]
            for key in over:
                self._reap(key)
            if not over:
                time.sleep(_LOOK_S)
        ended, self._ended = self._ended, []
        self._start_what_fits()
        return ended

    def close(self) -> None:
        self._waiting.clear()
        with ThreadPoolExecutor(len(self._running) or 1) as threads:
            list(threads.map(self._reap, list(self._running)))

    def _start_what_fits(self) -> None:
        while self._waiting and len(self._running) < self.capacity:
            need = self._waiting[0].resources
            # If it needs more GPUs than this machine has, the job itself says so: that is a result, too.
            cards = min(need.gpus, self._all_cards)
            used_mb = sum(task.resources.memory_mb for task, _, _ in self._running.values())
            if used_mb + need.memory_mb > self._memory_mb or cards > len(self._cards):
                return
            task, own = self._waiting.popleft(), self._cards[:cards]
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(own)} if self._all_cards else None
            try:
                process = start_command(task.command, self._logs / f"{task.key}.log", environment)
            except OSError as error:
                self._ended.append(Ended(task.key, None, f"it could not be started: {error.strerror}", self._node))
            else:
                del self._cards[:cards]
                self._running[task.key] = task, process, own

    def _reap(self, key: str) -> None:
        _, process, cards = self._running.pop(key)
        code, reason = end_command(process, self._logs / f"{key}.log")
        self._cards += cards
        self._ended.append(Ended(key, code, reason, self._node))


def _machine_memory_mb() -> int:
    """Return the memory of this machine in MB, or that of this process's control group if that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(name).read_text(encoding="ascii")))
    return min(limits) // 1_000_000


def _machine_cards() -> list[str]:
    """Return the names of the GPUs that jobs may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    return sorted((path.name[6:] for path in Path("/dev").glob("nvidia[0-9]*")), key=int)
