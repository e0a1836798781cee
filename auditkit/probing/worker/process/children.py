"""One forked child per job: its messages, its output, its end, and the end of everything it started."""

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
from typing import Any, Callable, Dict, List, Optional

from . import families
from .jsonlines import MOST_OUTPUT_BYTES, Reader, Writer, new_token

_TAIL_BYTES = 4096
_PIECE_BYTES = 1 << 16
_WAIT_S = 0.05
_M_MMAP_MAX, _M_TRIM_THRESHOLD, _NEVER_TRIM = -4, -1, (1 << 31) - 1


class Child:
    """A forked process that runs `job(writer)`; the parent supervises it to its end."""

    def __init__(self, job: Callable[[Writer], None], results: Writer) -> None:
        results_read, results_write = os.pipe()
        output_read, output_write = os.pipe()
        token = new_token()
        self._elder = families.children()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = families.fork()
        if self.pid == 0:
            for fd in (results_read, output_read, *results.private_fds):
                os.close(fd)
            _run_child(job, Writer(results_write, token), output_write)
        os.close(results_write)
        os.close(output_write)
        self.plan: Optional[Dict[str, Any]] = None
        self.imported: List[str] = []
        self.parsed: List[str] = []
        self._results = results
        self._reader = Reader(token)
        self._results_fd = results_read
        self._output_fd = output_read
        self._open = [results_read, output_read]
        self._tail = b""
        self._output_bytes = 0
        self._finished = False

    def supervise(self, time_limit_s: float) -> Optional[Dict[str, Any]]:
        """Pass the child's messages on until it ends or its time is up; returns the plan if it sent one."""
        deadline = time.monotonic() + time_limit_s
        status: Optional[int] = None
        while status is None and time.monotonic() < deadline and self._output_bytes <= MOST_OUTPUT_BYTES:
            self._read(_WAIT_S)
            status = self._exit_status()
        self._end_family(reaped=status is not None)
        while self._read(0):  # no process is left to write: the pipes hold little
            continue
        self._results.send({**self._end(status, time_limit_s), **self._output()})
        os.close(self._results_fd)
        os.close(self._output_fd)
        return self.plan

    def _read(self, wait_s: float) -> bool:
        """One piece of each pipe that holds any. The end of a pipe is not awaited: an orphan may hold it."""
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
                self._tail = (self._tail + data)[-_TAIL_BYTES:]
            else:
                self._pass_on(data)
        return bool(readable)

    def _pass_on(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            kind = message.get("type")
            if kind == "done":
                self._finished = True
                continue
            if kind == "imported":
                self.imported, self.parsed = message["modules"], message["parsed"]
                continue
            if kind == "plan":
                self.plan = message["plan"]
            self._results.send(message)

    def _exit_status(self) -> Optional[int]:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return status if pid else None

    def _end_family(self, reaped: bool) -> None:
        """The process group, then whatever left it and was handed to us as an orphan."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if not reaped:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        families.end_children(spared=self._elder)

    def _end(self, status: Optional[int], time_limit_s: float) -> Dict[str, Any]:
        if self._finished:
            return {"type": "end", "status": "ok"}
        if status is None and self._output_bytes > MOST_OUTPUT_BYTES:
            message = "it printed more than 10 MB; the process and all it started were ended"
            return {"type": "end", "status": "error", "reason": "protocol", "message": message}
        if status is None:
            message = "no answer within {:g} s; the process and all it started were ended".format(time_limit_s)
            return {"type": "end", "status": "error", "reason": "timeout", "message": message}
        if os.WIFSIGNALED(status):
            name = families.signal_name(os.WTERMSIG(status))
            message = "the process died of {}{}".format(name, _HINTS.get(name, ""))
            return {"type": "end", "status": "error", "reason": "crash", "message": message}
        code = os.WEXITSTATUS(status)
        message = "the target ended the process itself with status {} (sys.exit or os._exit)".format(code)
        return {"type": "end", "status": "error", "reason": "exit", "message": message}

    def _output(self) -> Dict[str, Any]:
        return {"output_bytes": self._output_bytes, "output_tail": self._tail.decode("utf-8", "replace")}


_HINTS = {"SIGKILL": ": out of memory, or killed from outside", "SIGSEGV": ": a crash in native code"}


def _run_child(job: Callable[[Writer], None], writer: Writer, output_fd: int) -> None:
    """Never returns. Only a job that ends by itself says `done`; every other end is told by its status."""
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
    """Let glibc use what was freed again: of a large block it asks the kernel for fresh, zeroed pages each time.

    They took two thirds of the processor time of the calls at 100M parameters. Other C libraries are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER_TRIM)


def _run_and_report(job: Callable[[Writer], None], writer: Writer) -> int:
    """Run `job` and send what it raised; returns the exit status. `done` is sent unless it left by SystemExit."""
    try:
        job(writer)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except MemoryError as error:
        writer.send({"type": "failed", "reason": "no_memory", "message": "out of memory: {}".format(error)})
    except BaseException as error:
        traceback.print_exc()
        text = "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:300])
        reason = "no_memory" if families.is_out_of_memory(text) else "exception"
        writer.send({"type": "failed", "reason": reason, "message": text})
    writer.send({"type": "done"})
    return 0
