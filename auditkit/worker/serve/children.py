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
from typing import Any, Callable, Dict, NoReturn

from . import families
from .messages import CONTROL, MOST_OUTPUT_BYTES, Lines, Writer, decoded, new_token

_PIECE_BYTES = 1 << 16
_WAIT_S = 0.05
_M_MMAP_MAX, _M_TRIM_THRESHOLD, _NEVER_TRIM = -4, -1, (1 << 31) - 1


class Child:
    """A forked process that runs `job(writer)`; the parent supervises it until it ends.

    `told` is what it reports about itself: whether it is `done`, and its `plan`.
    """

    def __init__(self, job: Callable[[Writer], None], results: Writer) -> None:
        self._output_fd, output_write = os.pipe()
        token = new_token()
        self._elder = families.children()
        self.pid, fd = families.fork_with_pipe((self._output_fd, results.fd))
        if self.pid == 0:
            _run(job, Writer(fd, token), output_write)
        os.close(output_write)
        self._results_fd = fd
        self.told: Dict[str, Any] = {}
        self._results = results
        self._lines = Lines(token)
        self._open = [self._results_fd, self._output_fd]
        self._output_bytes = 0

    def supervise(self, time_limit_s: float) -> None:
        """Forward the child's messages until it ends or its time is up; then end the processes that it started."""
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
        while self._read(0):  # No process can write any more: the pipes contain little.
            continue
        os.close(self._results_fd)
        os.close(self._output_fd)
        end: Dict[str, Any] = {"type": "end", "output_bytes": self._output_bytes}
        if not self.told.get("done"):
            flooded = not pid and self._output_bytes > MOST_OUTPUT_BYTES
            end["reason"], end["message"] = families.describe_end(status if pid else None, time_limit_s, flooded)
        self._results.control(end)

    def _read(self, wait_s: float) -> bool:
        """Read one chunk of each pipe that has data; do not wait for its end, since an orphan may keep it open."""
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
                for line in self._lines.feed(data):
                    if line.startswith(CONTROL):
                        self.told.update(decoded(line[1:]))
                    else:
                        self._results.write(line)
        return bool(readable)


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
    """Let glibc reuse freed pages instead of requesting fresh, zeroed pages for each large block.

    Fresh pages took two thirds of the processor time of the calls at 100M parameters. Other C libraries keep their
    settings.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER_TRIM)


def _run_and_report(job: Callable[[Writer], None], writer: Writer) -> int:
    """Run `job`, send what it raised, and return the exit status. `done` is sent unless it raised SystemExit."""
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
    writer.control({"done": True})
    return 0
