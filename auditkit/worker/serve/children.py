"""One forked process for each job: its messages, its output, its end, and the end of everything it started."""

import contextlib
import ctypes
import faulthandler
import gc
import os
import select
import signal
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, NoReturn, Optional

from . import families
from .messages import MOST_OUTPUT_BYTES, OF_JOB, Lines, Writer, new_token, objects

_PIECE_BYTES = 1 << 16
_WAIT_S = 0.05
_M_MMAP_MAX, _M_TRIM_THRESHOLD, _NEVER_TRIM = -4, -1, (1 << 31) - 1


class Child:
    """A forked process that runs `job(writer)`; the parent supervises it to its end."""

    def __init__(self, job: Callable[[Writer], None], results: Writer) -> None:
        self._results_fd, results_write = os.pipe()
        self._output_fd, output_write = os.pipe()
        token = new_token()
        self._elder = families.children()
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self.pid = families.fork()
        except OSError:
            for fd in (self._results_fd, results_write, self._output_fd, output_write):
                os.close(fd)
            raise
        if self.pid == 0:
            for fd in (self._results_fd, self._output_fd, *results.private_fds):
                os.close(fd)
            _run(job, Writer(results_write, token), output_write)
        os.close(results_write)
        os.close(output_write)
        self.plan: Optional[Dict[str, Any]] = None
        self.imported: Dict[str, List[str]] = {"modules": []}
        self._results = results
        self._lines = Lines(token)
        self._open = [self._results_fd, self._output_fd]
        self._output_bytes = 0
        self._finished = False

    def supervise(self, time_limit_s: float) -> None:
        """Pass the child's messages on until it ends or its time is up; end what it leaves behind."""
        deadline = time.monotonic() + time_limit_s
        pid, status = 0, 0
        while not pid and time.monotonic() < deadline and self._output_bytes <= MOST_OUTPUT_BYTES:
            self._read(_WAIT_S)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if not pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        families.end_children(spared=self._elder)
        while self._read(0):  # no process is left to write: the pipes hold little
            continue
        os.close(self._results_fd)
        os.close(self._output_fd)
        end: Dict[str, Any] = {"type": "end", "output_bytes": self._output_bytes}
        if not self._finished:
            flooded = not pid and self._output_bytes > MOST_OUTPUT_BYTES
            end["reason"], end["message"] = families.describe_end(status if pid else None, time_limit_s, flooded)
        self._results.send(end)

    def _read(self, wait_s: float) -> bool:
        """Read one piece of each pipe that holds any. An orphan may hold a pipe: its end is not awaited."""
        if not self._open:
            time.sleep(wait_s)
            return False
        readable, _, _ = select.select(self._open, [], [], wait_s)
        for fd in readable:
            data = os.read(fd, _PIECE_BYTES)
            if not data:
                self._open.remove(fd)
            elif fd == self._output_fd:
                self._output_bytes += len(data)
            else:
                self._pass_on(self._lines.feed(data))
        return bool(readable)

    def _pass_on(self, lines: List[bytes]) -> None:
        """Pass messages of a job on; anything else is a failure of the job: a target has found its pipe."""
        messages = list(objects(lines))
        strange = len(lines) - len(messages)
        for message in messages:
            kind = message.get("type")
            if kind == "done":
                self._finished = True
            elif kind == "imported":
                self.imported = message
            elif isinstance(kind, str) and kind in OF_JOB:
                if kind == "plan" and isinstance(message.get("plan"), dict):
                    self.plan = message["plan"]
                self._results.send(message)
            else:
                strange += 1
        if strange:
            text = "the worker sent a line that is no message of a job"
            self._results.send({"type": "failed", "reason": "protocol", "message": text})


def _run(job: Callable[[Writer], None], writer: Writer, output_fd: int) -> NoReturn:
    """Run the job in the child. Only a job that ends by itself sends `done`; the exit status shows every other end."""
    code = 1
    try:
        os.setsid()
        families.die_with_parent()
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        os.close(output_fd)
        faulthandler.enable()
        gc.enable()
        _keep_freed_pages()
        code = _run_and_report(job, writer)
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _keep_freed_pages() -> None:
    """Let glibc reuse freed pages: for a large block it requests fresh, zeroed pages from the kernel each time.

    They took two thirds of the processor time of the calls at 100M parameters. Other C libraries are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER_TRIM)


def _run_and_report(job: Callable[[Writer], None], writer: Writer) -> int:
    """Run `job` and send what it raised; return the exit status. `done` is sent unless it left by SystemExit."""
    try:
        job(writer)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        is_memory = isinstance(error, MemoryError)
        if not is_memory:
            traceback.print_exc()
        text = "{}: {}".format(
            "out of memory" if is_memory else type(error).__name__, " ".join(str(error).split())[:300]
        )
        reason = "no_memory" if is_memory or families.is_out_of_memory(text) else "exception"
        writer.send({"type": "failed", "reason": reason, "message": text})
    writer.send({"type": "done"})
    return 0
