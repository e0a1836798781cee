"""One server for each interpreter, with torch imported, and the workers that it forks (`worker/server.py`).

A fork takes milliseconds; importing torch, its compiler and its tensor subclasses takes 2 to 5 s.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auditkit.probing.engine.protocol import Ended, Hello, Message, Request, decode
from auditkit.processes import start_or_retry
from auditkit.worker.serve.messages import MOST_OUTPUT_BYTES, Lines, new_token

FLAGS = ("-I", "-B", "-u", "-X", "faulthandler")
ENTRY = Path(__file__).parents[2] / "worker" / "entry.py"
# Importing torch from a cold disk takes long.
START_LIMIT_S = 120.0
# The time for a worker, which enforces the limits itself, to end a child, to report it, or to end.
GRACE_S = 5.0
_TAIL_BYTES = 4096
_PIECE_BYTES = 1 << 16
# A target that finds its worker's socket may send without end.
_MOST_RESULT_BYTES = 256 << 20
_SAY_NEEDS = ("instrument", "device", "imports")
# Variables that a worker inherits. PYTHON* would undo `-I`; the others locate libraries and devices.
_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TRITON_INTERPRET", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "HF_HUB_OFFLINE",
)  # fmt: skip


class Worker:
    """A process that a server forked: its messages, the end of its output, and its exit status.

    `hello` is its first message; `status` its exit code, negative for a signal. `timed_out` and `flooded` mean that
    auditkit ends it, `server_ended` that it was lost.
    """

    def __init__(self, server: Server, results: socket.socket, output_fd: int, token: str) -> None:
        self.server = server
        self.hello: Hello | None = None
        self.status: int | None = None
        self.timed_out = self.flooded = self.server_ended = False
        self.output_tail = ""
        self._socket, self._output_fd, self._lines = results, output_fd, Lines(token)
        self._socket.settimeout(START_LIMIT_S)

    def run(
        self, request: Request, cancelled: threading.Event, copied: tuple[str, str] = ("", "")
    ) -> Generator[Message]:
        """Send a request; yield the messages until the process ends or is silent too long.

        The path `copied[0]` in messages is replaced by `copied[1]`.
        """
        output_bytes = received_bytes = 0
        limit_s = request["time_limit_s"]
        longest_s = START_LIMIT_S + (len(request["jobs"]) + 5) * (limit_s + GRACE_S)
        with contextlib.suppress(OSError):  # It may end before it reads the request; its end says why.
            self._socket.sendall(json.dumps(request, default=vars).encode("utf-8") + b"\n")
        began = last_message = time.monotonic()
        with selectors.DefaultSelector() as pipes:
            pipes.register(self._socket, selectors.EVENT_READ)
            pipes.register(self._output_fd, selectors.EVENT_READ)
            while not (self.timed_out or self.flooded or cancelled.is_set()):
                for key, _ in pipes.select(0.0 if self.status is not None else 0.25):
                    if key.fileobj is self._socket:
                        data = self._receive()
                        received_bytes += len(data)
                        yield from self._take(data, copied)
                        last_message = time.monotonic()  # Exclude the host's time for this message.
                    else:
                        data = os.read(key.fd, _PIECE_BYTES)
                        output_bytes += len(data)
                        text = self.output_tail + data.decode("utf-8", "replace")
                        self.output_tail = (text.replace(*copied) if copied[0] else text)[-_TAIL_BYTES:]
                        self.flooded = output_bytes > MOST_OUTPUT_BYTES
                    if not data:
                        pipes.unregister(key.fileobj)
                if self.status is not None and not _is_readable(self._output_fd, pipes):
                    return
                patience_s = limit_s + GRACE_S if self.hello is not None else max(limit_s, START_LIMIT_S)
                now = time.monotonic()
                is_late = now - last_message > patience_s or now - began > longest_s
                self.timed_out = is_late or received_bytes > _MOST_RESULT_BYTES

    def end(self, patience_s: float = GRACE_S) -> None:
        """Let it end by itself for some seconds, then end its processes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._await_end(patience_s)
        if self.hello is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self.status is None:
                    os.kill(self.hello.pid, signal.SIGTERM)
                    self._await_end(GRACE_S)
                os.killpg(self.hello.pid, signal.SIGKILL)  # Its guard is gone if a target killed it.
        self._socket.close()
        os.close(self._output_fd)

    def _await_end(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while self.status is None and select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            for _ in self._take(self._receive(), ("", "")):
                pass

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(_PIECE_BYTES)
        except OSError:
            return b""

    def _take(self, data: bytes, copied: tuple[str, str]) -> Iterator[Message]:
        """Decode received bytes, handle messages about the process, and yield the rest."""
        if not data and self.status is None:
            self.status, self.server_ended = -signal.SIGKILL, True  # a server ends its workers with it
        copy, original = (json.dumps(path)[1:-1].encode("ascii") for path in copied)
        for line in self._lines.feed(data):
            message = decode(line.replace(copy, original) if copy else line)
            if isinstance(message, Ended):
                self.status = message.status
            elif isinstance(message, Hello):
                self.hello = self.hello or message  # The first one comes before the target runs.
            else:
                yield message


def _is_readable(fd: int, pipes: selectors.BaseSelector) -> bool:
    return fd in pipes.get_map() and bool(select.select([fd], [], [], 0)[0])


@dataclass
class Server:
    """The server of one interpreter, started for its first worker and again after it has ended."""

    interpreter: str
    environment: Mapping[str, str]
    _channel: socket.socket | None = None
    _process: subprocess.Popen[bytes] | None = None
    _scratch: tempfile.TemporaryDirectory[str] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fork(self, jobs: Sequence[Mapping[str, Any]]) -> Worker:
        """Start a worker; `jobs` determine the imports before the fork. Raises OSError if the interpreter cannot start.

        If the server has ended, the worker has ended, too.
        """
        needs = [{name: job[name] for name in _SAY_NEEDS if name in job} for job in jobs]
        needs = [need for number, need in enumerate(needs) if need not in needs[:number]]
        token = new_token()
        line = json.dumps({"token": token, "jobs": needs}).encode("ascii") + b"\n"
        (ours, theirs), (output_read, output_write) = socket.socketpair(), os.pipe()
        worker = Worker(self, ours, output_read, token)
        try:
            with self._lock, theirs:
                for _ in range(2):
                    try:
                        socket.send_fds(self.start(), [line], [theirs.fileno(), output_write])
                        break
                    except (BrokenPipeError, ConnectionResetError):
                        self.close()
        except BaseException:
            worker.end(0.0)
            raise
        finally:
            os.close(output_write)
        return worker

    def start(self) -> socket.socket:
        """Start the interpreter outside any checkout, in a new session, unless it runs; return its channel."""
        if self._channel is None:
            environment, (ours, theirs) = self.environment_of_workers(), socket.socketpair()
            command = [self.interpreter, *FLAGS, str(ENTRY), str(theirs.fileno())]
            with theirs, contextlib.ExitStack() as on_failure:
                on_failure.enter_context(ours)
                self._process = start_or_retry(
                    lambda: subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                        env=environment, start_new_session=True, pass_fds=(theirs.fileno(),),
                    )
                )  # fmt: skip
                on_failure.pop_all()
            self._channel = ours
        return self._channel

    def why_ended(self) -> tuple[bool, int, str]:
        """End a server that forked no worker: return whether it ran the entry script, its exit code, and its output."""
        with self._lock:
            channel, process = self._channel, self._process
            if channel is None or process is None or process.stdout is None:
                return False, -signal.SIGKILL, ""
            has_begun = bool(select.select([channel], [], [], 0)[0] and channel.recv(1, socket.MSG_PEEK))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1.0)
            printed = (
                os.read(process.stdout.fileno(), _PIECE_BYTES) if select.select([process.stdout], [], [], 0)[0] else b""
            )
            self.close()
            return has_begun, process.returncode, printed.decode("utf-8", "replace")[-_TAIL_BYTES:]

    def close(self) -> None:
        """End the interpreter and all its workers."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
        if self._scratch is not None:
            self._scratch.cleanup()
        self._channel = self._process = self._scratch = None

    def environment_of_workers(self) -> dict[str, str]:
        """Return the environment of workers, with a temporary folder that ends with this server.

        The audited code writes files there, and so does torch's compiler.
        """
        self._scratch = self._scratch or tempfile.TemporaryDirectory(prefix="auditkit-", ignore_cleanup_errors=True)
        folder = os.path.realpath(self._scratch.name)
        return {**self.environment, "TMPDIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder}


# A matrix has several interpreters, and each server takes 300 MB; two are in use at once.
_MOST_SERVERS = 4
_SERVERS: dict[tuple[str, tuple[tuple[str, str], ...]], Server] = {}
_SERVERS_LOCK = threading.Lock()


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker: few inherited variables, one thread, and no log output of libraries."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["KINETO_LOG_LEVEL"] = "99"  # the profiler's own messages are not the target's output
    # One thread, as torch has in a worker: numpy's threads would prevent a fork after its import.
    environment["OPENBLAS_NUM_THREADS"] = "1"
    # torch would fail to import if an installed package declares a device backend that cannot be imported here, such as
    # auditkit's own entry point in an editable install. Probes need no such backend.
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return environment


def server_for(interpreter: str) -> Server:
    """Return the server of this interpreter in the environment of now; too many end the least recently used one."""
    environment = worker_environment()
    key = (interpreter, tuple(sorted(environment.items())))
    with _SERVERS_LOCK:
        server = _SERVERS.pop(key, None) or Server(interpreter, environment)
        while len(_SERVERS) >= _MOST_SERVERS:
            _SERVERS.pop(next(iter(_SERVERS))).close()
        return _SERVERS.setdefault(key, server)


@atexit.register
def end_servers() -> None:
    """End every server; the next worker starts a new one."""
    with _SERVERS_LOCK:
        while _SERVERS:
            _SERVERS.popitem()[1].close()
