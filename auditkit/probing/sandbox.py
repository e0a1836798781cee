"""One worker process from start to end: its request, its messages, its output, and the end of its family."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_ENTRY = Path(__file__).parent / "worker" / "entry.py"
_TAIL_BYTES = 4096
_GRACE_S = 20.0

# What a worker may inherit. PYTHON* would change what `-I` promises; the rest finds libraries and devices.
_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TRITON_INTERPRET", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "HF_HUB_OFFLINE",
)  # fmt: skip


@dataclass
class WorkerEnd:
    """How the process ended: its exit code (negative: a signal), whether it was out of time, its last output."""

    returncode: int | None = None
    timed_out: bool = False
    output_tail: str = ""
    output_bytes: int = 0


@dataclass
class Worker:
    """Iterate over `messages()`; `end` is known afterwards. Leaving the loop early ends the process."""

    interpreter: str
    request: dict[str, Any]
    time_limit_s: float
    cancelled: threading.Event = field(default_factory=threading.Event)
    end: WorkerEnd = field(default_factory=WorkerEnd)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Every message of the worker, in order, until it ends or is silent for too long.

        Raises FileNotFoundError or PermissionError where the interpreter cannot be started.
        """
        results_read, results_write = os.pipe()
        try:
            process = self._start(results_write)
        except OSError:
            os.close(results_read)
            raise
        finally:
            os.close(results_write)
        try:
            self._send_request(process)
            yield from self._read(process, results_read)
        finally:
            os.close(results_read)
            self._finish(process)

    def _start(self, results_write: int) -> subprocess.Popen[bytes]:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["KINETO_LOG_LEVEL"] = "99"  # the profiler's own start and stop lines are not the target's output
        return subprocess.Popen(
            [self.interpreter, "-I", "-B", "-u", "-X", "faulthandler", str(_ENTRY), str(results_write)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(results_write,),
            env=environment,
            cwd=self.request["checkout"],
            start_new_session=True,
        )

    def _send_request(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(self.request).encode("utf-8"))
            process.stdin.close()
        except BrokenPipeError:
            return  # it ended before it read; its exit code says why

    def _read(self, process: subprocess.Popen[bytes], results_fd: int) -> Iterator[dict[str, Any]]:
        assert process.stdout is not None
        output_fd = process.stdout.fileno()
        waiting = {results_fd, output_fd}
        buffer = b""
        last_message = time.monotonic()
        while results_fd in waiting and not self.cancelled.is_set():
            if time.monotonic() - last_message > self.time_limit_s + _GRACE_S:
                self.end.timed_out = True
                return
            readable, _, _ = select.select(list(waiting), [], [], 0.25)
            if not readable and process.poll() is not None:
                return
            for fd in readable:
                data = os.read(fd, 1 << 16)
                if not data:
                    waiting.discard(fd)
                elif fd == output_fd:
                    self._keep_output(data)
                else:
                    last_message = time.monotonic()
                    *lines, buffer = (buffer + data).split(b"\n")
                    yield from _parsed(lines)

    def _keep_output(self, data: bytes) -> None:
        self.end.output_bytes += len(data)
        self.end.output_tail = (self.end.output_tail + data.decode("utf-8", "replace"))[-_TAIL_BYTES:]

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        """Give a worker that has closed its results a moment to end, then end its whole group."""
        assert process.stdout is not None
        if not self.end.timed_out:
            try:
                process.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                self.end.timed_out = False
        # The worker's children die with it (PR_SET_PDEATHSIG), whatever group they are in.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self.end.returncode = process.wait()
        process.stdout.close()


def _parsed(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            yield message
