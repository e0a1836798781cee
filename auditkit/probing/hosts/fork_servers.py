"""Interpreters that have torch imported already, kept as long as this process lives: workers are forked from them.

A worker that is forked is the same process as one that is started, but for the 2 to 5 s that it takes to import
torch, its compiler and its tensor subclasses. Where an interpreter cannot serve forks, workers are started.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from auditkit.probing.checkouts import scratch
from auditkit.processes import start_or_retry

FLAGS = ("-I", "-B", "-u", "-X", "faulthandler")
ENTRY = Path(__file__).parents[1] / "worker" / "entry.py"
# Importing torch from a cold disk takes long.
START_LIMIT_S = 120.0
_LOOK_S = 0.25
_SAY_NEEDS = ("instrument", "device", "imports")


class Process:
    """What `subprocess.Popen` is for a worker that a fork server has started."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes], end_fd: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self._end = io.FileIO(end_fd)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(timeout=0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            # Without a word the server itself is gone, and its workers with it.
            self.returncode = int(self._end.read() or -signal.SIGKILL)
            self._end.close()
        return self.returncode

    def terminate(self) -> None:
        """Ask it to end."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)


@dataclass
class ForkServer:
    """One interpreter that forks workers; `usable` ends with its first failure."""

    interpreter: str
    environment: Mapping[str, str]
    usable: bool = True
    _channel: socket.socket | None = None
    _process: subprocess.Popen[bytes] | None = None
    _scratch: tuple[Path, int] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fork(
        self,
        jobs: Sequence[Mapping[str, Any]],
        results_fd: int,
        cancelled: threading.Event,
    ) -> Process | None:
        """A worker that will write its results to `results_fd`; None where this interpreter cannot fork one.

        `jobs` say what is imported before the fork.
        """
        with self._lock:
            if not self.usable:
                return None
            process = None
            with contextlib.suppress(OSError, ValueError):
                process = self._fork(jobs, results_fd, cancelled)
            if process is None:
                # Where nobody waits any more its answer may still come, and would be taken for the next one's.
                self.usable = cancelled.is_set()
                self.close()
            return process

    @property
    def pid(self) -> int | None:
        """Its process, None where it has not been started."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """End the interpreter, and with it every worker that still runs."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._scratch is not None:
            scratch.remove_scratch(*self._scratch)
        self._channel = self._process = self._scratch = None

    def environment_of_workers(self) -> dict[str, str]:
        """The environment of each worker, with a folder for temporary files that ends with this server.

        The audited code leaves files there, and so does torch's compiler.
        """
        self._scratch = self._scratch or scratch.make_scratch()
        folder = str(self._scratch[0])
        return {**self.environment, "TMPDIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder}

    def _fork(
        self,
        jobs: Sequence[Mapping[str, Any]],
        results_fd: int,
        cancelled: threading.Event,
    ) -> Process | None:
        channel = self._channel = self._channel or self._start()
        needs = [{name: job[name] for name in _SAY_NEEDS if name in job} for job in jobs]
        needs = [need for number, need in enumerate(needs) if need not in needs[:number]]
        (input_read, input_write), (output_read, output_write), (end_read, end_write) = os.pipe(), os.pipe(), os.pipe()
        given = [input_read, output_write, results_fd, end_write]
        kept = [input_write, output_read, end_read]
        pid = 0
        try:
            socket.send_fds(channel, [json.dumps(needs).encode("ascii") + b"\n"], given)
            pid = _answer(channel, cancelled)
        finally:
            for fd in (input_read, output_write, end_write, *([] if pid else kept)):
                os.close(fd)
        if not pid:
            return None
        return Process(pid, os.fdopen(input_write, "wb"), os.fdopen(output_read, "rb"), end_read)

    def _start(self) -> socket.socket:
        environment = self.environment_of_workers()
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as if_it_fails:
            if_it_fails.enter_context(ours)
            command = [self.interpreter, *FLAGS, str(ENTRY), "--forks", str(theirs.fileno())]
            nothing = subprocess.DEVNULL
            self._process = start_in_session(command, environment, theirs.fileno(), nothing, nothing, nothing)
            if_it_fails.pop_all()
        return ours


def start_in_session(
    command: Sequence[str], environment: Mapping[str, str], passed_fd: int, stdin: int, stdout: int, stderr: int
) -> subprocess.Popen[bytes]:
    """Start an interpreter outside any checkout, in a session of its own, with one descriptor beside its streams."""
    return start_or_retry(
        lambda: subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, cwd="/", env=environment, start_new_session=True,
            pass_fds=(passed_fd,),
        )
    )  # fmt: skip


def _answer(channel: socket.socket, cancelled: threading.Event) -> int:
    """The worker's process; 0 where the server has ended, is silent for too long, or nobody waits any more."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and not cancelled.is_set():
        if not select.select([channel], [], [], _LOOK_S)[0]:
            continue
        answer, descriptors, _, _ = socket.recv_fds(channel, 64, 1)
        for descriptor in descriptors:
            with os.fdopen(descriptor), open(f"/proc/self/fdinfo/{descriptor}") as told:
                return int(next(line for line in told if line.startswith("Pid:")).split()[1])
        return int(answer or 0)
    return 0


# A matrix has an interpreter for each of its arms, and each server takes 300 MB; two are in use at once.
_MOST_SERVERS = 4
_SERVERS: dict[tuple[str, tuple[tuple[str, str], ...]], ForkServer] = {}
_SERVERS_LOCK = threading.Lock()


def server_for(interpreter: str, environment: Mapping[str, str]) -> ForkServer:
    """The one server of this interpreter in this environment; of too many, the one unused for longest ends."""
    key = (interpreter, tuple(sorted(environment.items())))
    with _SERVERS_LOCK:
        server = _SERVERS.pop(key, None) or ForkServer(interpreter, dict(environment))
        while len(_SERVERS) >= _MOST_SERVERS:
            _SERVERS.pop(next(iter(_SERVERS))).close()
        return _SERVERS.setdefault(key, server)


def servers() -> list[ForkServer]:
    """Those that run, longest unused first."""
    return list(_SERVERS.values())


@atexit.register
def end_servers() -> None:
    """End every server; the next worker starts one again."""
    with _SERVERS_LOCK:
        while _SERVERS:
            _SERVERS.popitem()[1].close()
