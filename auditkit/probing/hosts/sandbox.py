"""One worker process from start to end: its messages, its output, and the end of its family."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auditkit.errors import NothingMeasuredError
from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.probe import Policy
from auditkit.model.runs.target import split_call
from auditkit.probing.hosts.cache import ResultCache
from auditkit.probing.hosts.fork_servers import ENTRY, FLAGS, START_LIMIT_S, Process, server_for, start_in_session
from auditkit.probing.hosts.kept_workers import GRACE_S, KeptWorkers, StartedWorker
from auditkit.probing.hosts.protocol import Message, Request, checked
from auditkit.probing.worker.process.jsonlines import MOST_OUTPUT_BYTES, Reader

DEFAULT_TIME_LIMIT_S = 120.0

_TAIL_BYTES = 4096
_PIECE_BYTES = 1 << 16
# A target that finds the pipe of its worker may go on for ever.
_MOST_RESULT_BYTES = 256 << 20

# What a worker may inherit. PYTHON* would change what `-I` promises; the rest finds libraries and devices.
_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TRITON_INTERPRET", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "HF_HUB_OFFLINE",
)  # fmt: skip


def worker_environment() -> dict[str, str]:
    """The environment of a worker: little of ours, and what keeps it to one thread and its own output."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["KINETO_LOG_LEVEL"] = "99"  # the profiler's own start and stop lines are not the target's output
    # One thread, as torch has in a worker: numpy's own would be a reason not to fork what has imported it.
    environment["OPENBLAS_NUM_THREADS"] = "1"
    # torch would fail to import with a package that names a device backend and cannot be imported here, as auditkit's
    # own entry point where it is installed from a folder. Probes measure on the CPU and on CUDA, which need none.
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return environment


@dataclass(frozen=True)
class Setting:
    """Where and how probes run: the checkout's path and interpreter, the device, the limits.

    `copied` and `replaced` are those of the open checkout: what a worker says of the copy is said of what was copied.
    `kept` are workers that have imported a module already; without it each ends when it has answered. `cache` has the
    results of earlier commands. `rungs` are the ways to load a target that are tried in turn; without them those that
    make sense for it.
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
    replaced: Mapping[str, tuple[tuple[int, int], tuple[str, ...]]] = field(default_factory=dict)
    kept: KeptWorkers | None = None
    cache: ResultCache | None = None
    rungs: tuple[str, ...] = ()


@dataclass
class WorkerEnd:
    """How the process ended: its exit code (negative: a signal), whether it was out of time, its last output.

    `begun` tells a Python that ran our code from anything else; `ready` that it also had a working torch; `loaded`
    that the target's module was imported; `idle` that it has answered and waits for the next request;
    `flooded` that it printed more than it may.
    """

    returncode: int | None = None
    timed_out: bool = False
    begun: bool = False
    ready: bool = False
    loaded: bool = False
    idle: bool = False
    flooded: bool = False
    output_tail: str = ""
    output_bytes: int = 0


@dataclass
class Worker:
    """Iterate over `messages()`; `end` is known afterwards. Leaving the loop early ends the process."""

    setting: Setting
    request: Request
    end: WorkerEnd = field(default_factory=WorkerEnd)
    began_ns: int = 0

    def messages(self) -> Generator[Message]:
        """Every message of the worker, in order, until it has answered, ends or is silent for too long.

        Raises FileNotFoundError or PermissionError where the interpreter cannot be started.
        """
        kept, imported = self.setting.kept, self._imported()
        started = kept.take(imported) if kept is not None and imported else None
        started = started or self._start()
        self.began_ns = started.began_ns
        try:
            self._send_request(started.process)
            yield from self._read(started)
        finally:
            if kept is not None and imported and self.end.loaded and self.end.idle:
                kept.keep(imported, started)
            else:
                cut_off = self.end.timed_out or self.end.flooded or self.setting.cancelled.is_set()
                self.end.returncode = started.end(0.0 if cut_off else GRACE_S)

    def _imported(self) -> object:
        """What the process will have imported, where another request may come to it; else nothing."""
        target = self.request["target"]
        place, _, statement = split_call(target.call if target is not None else " ".join(self.request["modules"]))
        name = f"{place}#" if statement else place  # of a block's file only parts are loaded
        if not name or self.request["fresh_imports"]:
            return None
        roots, rungs = tuple(self.request["import_roots"]), tuple(self.request["rungs"])
        return self.setting.interpreter, self.request["checkout"], roots, rungs, name

    def _start(self) -> StartedWorker:
        environment, interpreter = worker_environment(), self.setting.interpreter
        results_read, results_write = os.pipe()
        try:
            process: Process | subprocess.Popen[bytes] | None
            server = server_for(interpreter, environment)
            process = server.fork(self.request["jobs"], results_write, self.setting.cancelled)
            if process is None:
                command = [interpreter, *FLAGS, str(ENTRY), str(results_write)]
                pipe, both = subprocess.PIPE, subprocess.STDOUT
                process = start_in_session(command, server.environment_of_workers(), results_write, pipe, pipe, both)
        except (OSError, NothingMeasuredError):
            os.close(results_read)
            raise
        finally:
            os.close(results_write)
        return StartedWorker(process, results_read)

    def _send_request(self, process: subprocess.Popen[bytes] | Process) -> None:
        assert process.stdin is not None
        request = json.dumps(self.request, default=vars).encode("utf-8") + b"\n"
        # A broken pipe: it ended before it read. Its exit code says why.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.flush()
            if self.setting.kept is None:
                process.stdin.close()

    def _read(self, started: StartedWorker) -> Iterator[Message]:
        process, results_fd = started.process, started.results_fd
        assert process.stdout is not None
        reader = Reader(self.request["token"], *self.setting.copied)
        began = last_message = time.monotonic()
        received_bytes = 0
        with selectors.DefaultSelector() as pipes:
            pipes.register(results_fd, selectors.EVENT_READ)
            pipes.register(process.stdout, selectors.EVENT_READ)
            ended = False
            while results_fd in pipes.get_map() and not self.end.idle and not self.setting.cancelled.is_set():
                readable = pipes.select(0.0 if ended else 0.25)
                if ended and not readable:
                    return
                for key, _ in readable:
                    data = os.read(key.fd, _PIECE_BYTES)
                    if not data:
                        pipes.unregister(key.fileobj)
                    elif key.fd != results_fd:
                        self._keep_output(data)
                        if self.end.output_bytes > MOST_OUTPUT_BYTES:
                            self.end.flooded = True
                            return
                    else:
                        received_bytes += len(data)
                        yield from self._noted(filter(None, map(checked, reader.feed(data))))
                        last_message = time.monotonic()  # what the host does with a message is not the worker's time
                is_late = time.monotonic() - last_message > self._patience_s()
                if is_late or time.monotonic() - began > self._longest_s() or received_bytes > _MOST_RESULT_BYTES:
                    self.end.timed_out = True
                    return
                # The guard ends last: nobody is left to write, and what the pipes hold is finite.
                ended = ended or process.poll() is not None

    def _noted(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            self.end.begun = True
            self.end.ready = self.end.ready or message["type"] == "hello"
            self.end.loaded = self.end.loaded or message["type"] == "loaded"
            self.end.idle = message["type"] == "idle"
            if not self.end.idle:
                yield message

    def _patience_s(self) -> float:
        limit_s = self.setting.time_limit_s
        return limit_s + GRACE_S if self.end.ready else max(limit_s, START_LIMIT_S)

    def _longest_s(self) -> float:
        """What all jobs may take, with every way to load their target."""
        return START_LIMIT_S + (len(self.request["jobs"]) + 5) * (self.setting.time_limit_s + GRACE_S)

    def _keep_output(self, data: bytes) -> None:
        self.end.output_bytes += len(data)
        copy, original = self.setting.copied
        text = self.end.output_tail + data.decode("utf-8", "replace")
        self.end.output_tail = (text.replace(copy, original) if copy else text)[-_TAIL_BYTES:]
