"""Workers that have imported a module and wait to be asked about it again: a module is imported once in an audit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

from auditkit.probing.hosts.fork_servers import Process

# What a worker, which keeps the limits itself, may take to end a child, to say so, or to end.
GRACE_S = 5.0
# Each holds what its module holds; two more are at work.
_MOST_KEPT = 4


@dataclass
class StartedWorker:
    """A process with the read end of its results, and when it began, before it read anything."""

    process: subprocess.Popen[bytes] | Process
    results_fd: int
    began_ns: int = field(default_factory=time.time_ns)

    def end(self, patience_s: float = GRACE_S) -> int:
        """Let it end by itself for so long, then have its guard end the family; the exit code."""
        process = self.process
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        os.close(self.results_fd)
        if patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=patience_s)
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GRACE_S)
        # Without /proc there is only the process group; where the guard has ended, it is empty.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


class KeptWorkers:
    """Workers by what they have imported; all end with the block."""

    def __init__(self) -> None:
        self._idle: list[tuple[object, StartedWorker]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> KeptWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._idle:
            self._idle.pop()[1].end()

    def take(self, imported: object) -> StartedWorker | None:
        """A worker that waits with these imports, which is no longer kept; None where there is none."""
        with self._lock:
            found = next((one for one in self._idle if one[0] == imported), None)
            if found is not None:
                self._idle.remove(found)
        if found is not None and found[1].process.poll() is not None:
            found[1].end()
            return None
        return found[1] if found is not None else None

    def keep(self, imported: object, worker: StartedWorker) -> None:
        """Keep a worker that waits; of too many, the one that has waited longest ends."""
        with self._lock:
            self._idle.append((imported, worker))
            surplus = self._idle.pop(0)[1] if len(self._idle) > _MOST_KEPT else None
        if surplus is not None:
            surplus.end()
