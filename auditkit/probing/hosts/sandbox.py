"""One worker process from start to end: its messages, its output, and the end of its family."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.probe import Policy
from auditkit.probing.hosts.fork_servers import ENTRY, START_LIMIT_S, Process, server_for
from auditkit.probing.hosts.protocol import Message, Request
from auditkit.probing.worker.process.jsonlines import Reader

DEFAULT_TIME_LIMIT_S = 120.0

_TAIL_BYTES = 4096
_PIECE_BYTES = 1 << 16
# What the worker, which keeps the limits itself, may take to end a child and to say so.
_GRACE_S = 5.0

# What a worker may inherit. PYTHON* would change what `-I` promises; the rest finds libraries and devices.
_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TRITON_INTERPRET", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "HF_HUB_OFFLINE",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Where and how probes run: the checkout's path and interpreter, the device, the limits.

    `copied` is that of the open checkout: what a worker says of the copy is said of what was copied.
    """

    checkout: Path
    interpreter: str
    import_roots: tuple[Path, ...]
    device: DeviceChoice = DeviceChoice.AUTO
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    options: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = Policy()  # noqa: RUF009 - it is frozen
    cancelled: threading.Event = field(default_factory=threading.Event)
    copied: tuple[str, str] = ("", "")


@dataclass
class WorkerEnd:
    """How the process ended: its exit code (negative: a signal), whether it was out of time, its last output.

    `begun` tells a Python that ran our code from anything else; `ready` that it also had a working torch.
    """

    returncode: int | None = None
    timed_out: bool = False
    begun: bool = False
    ready: bool = False
    output_tail: str = ""
    output_bytes: int = 0


@dataclass
class Worker:
    """Iterate over `messages()`; `end` is known afterwards. Leaving the loop early ends the process."""

    setting: Setting
    request: Request
    end: WorkerEnd = field(default_factory=WorkerEnd)

    def messages(self) -> Generator[Message]:
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

    def _start(self, results_write: int) -> subprocess.Popen[bytes] | Process:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["KINETO_LOG_LEVEL"] = "99"  # the profiler's own start and stop lines are not the target's output
        server = server_for(self.setting.interpreter, environment)
        return server.fork(self.request["jobs"], results_write, self.setting.cancelled) or subprocess.Popen(
            [self.setting.interpreter, "-I", "-B", "-u", "-X", "faulthandler", str(ENTRY), str(results_write)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(results_write,),
            env=environment,
            start_new_session=True,
        )

    def _send_request(self, process: subprocess.Popen[bytes] | Process) -> None:
        assert process.stdin is not None
        request = json.dumps(self.request, default=vars).encode("utf-8")
        # A broken pipe: it ended before it read. Its exit code says why.
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(request)

    def _read(self, process: subprocess.Popen[bytes] | Process, results_fd: int) -> Iterator[Message]:
        assert process.stdout is not None
        reader = Reader(self.request["token"], *self.setting.copied)
        last_message = time.monotonic()
        with selectors.DefaultSelector() as pipes:
            pipes.register(results_fd, selectors.EVENT_READ)
            pipes.register(process.stdout, selectors.EVENT_READ)
            ended = False
            while results_fd in pipes.get_map() and not self.setting.cancelled.is_set():
                readable = pipes.select(0.0 if ended else 0.25)
                if ended and not readable:
                    return
                for key, _ in readable:
                    data = os.read(key.fd, _PIECE_BYTES)
                    if not data:
                        pipes.unregister(key.fileobj)
                    elif key.fd != results_fd:
                        self._keep_output(data)
                    else:
                        yield from self._noted(cast("list[Message]", reader.feed(data)))
                        last_message = time.monotonic()  # what the host does with a message is not the worker's time
                if time.monotonic() - last_message > self._patience_s():
                    self.end.timed_out = True
                    return
                # The guard ends last: nobody is left to write, and what the pipes hold is finite.
                ended = ended or process.poll() is not None

    def _noted(self, messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            self.end.begun = True
            self.end.ready = self.end.ready or message["type"] == "hello"
            yield message

    def _patience_s(self) -> float:
        limit_s = self.setting.time_limit_s
        return limit_s + _GRACE_S if self.end.ready else max(limit_s, START_LIMIT_S)

    def _keep_output(self, data: bytes) -> None:
        self.end.output_bytes += len(data)
        copy, original = self.setting.copied
        text = self.end.output_tail + data.decode("utf-8", "replace")
        self.end.output_tail = (text.replace(copy, original) if copy else text)[-_TAIL_BYTES:]

    def _finish(self, process: subprocess.Popen[bytes] | Process) -> None:
        """Give a worker that has closed its results a moment to end; else have its guard end the family."""
        assert process.stdout is not None
        if not self.end.timed_out and not self.setting.cancelled.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_GRACE_S)
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_GRACE_S)
        # Without /proc there is only the process group; where the guard has ended, it is empty.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self.end.returncode = process.wait()
        process.stdout.close()
