"""One forked child per job: its messages, its output, its end, and the end of everything it started."""

import contextlib
import ctypes
import faulthandler
import json
import os
import select
import signal
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Optional

from .jsonlines import Writer

_TAIL_BYTES = 4096
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LONGEST_MESSAGE_BYTES = 64 << 20


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the process group has to be enough."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        return


def die_with_parent() -> None:
    """End this process when its parent ends, and adopt orphans so that they can be ended too."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Child:
    """A forked process that runs `job(writer)`; the parent supervises it to its end."""

    def __init__(self, job: Callable[[Writer], None]) -> None:
        results_read, results_write = os.pipe()
        output_read, output_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(results_read)
            os.close(output_read)
            _run_child(job, results_write, output_write)
        os.close(results_write)
        os.close(output_write)
        self.results_fd = results_read
        self.output_fd = output_read
        self.tail = b""
        self.output_bytes = 0
        self.finished = False
        self.plan: Optional[Dict[str, Any]] = None
        self._buffer = b""

    def supervise(self, results: Writer, time_limit_s: float) -> Optional[Dict[str, Any]]:
        """Pass the child's messages on until it ends or its time is up; returns the plan if it sent one."""
        deadline = time.monotonic() + time_limit_s
        status: Optional[int] = None
        while status is None:
            self._read(results, min(0.05, max(0.0, deadline - time.monotonic())))
            status = self._exit_status()
            if status is None and time.monotonic() >= deadline:
                break
        if status is not None:
            self._read(results, 0.0)
        self._kill_everything(reaped=status is not None)
        results.send(dict(self._end(status, time_limit_s), **self._output()))
        os.close(self.results_fd)
        os.close(self.output_fd)
        return self.plan

    def _read(self, results: Writer, wait_s: float) -> None:
        """Everything that is there to read. The end of a pipe is not awaited: an orphan may hold it."""
        readable, _, _ = select.select([self.results_fd, self.output_fd], [], [], wait_s)
        while readable:
            for fd in readable:
                data = os.read(fd, 1 << 16)
                if not data:
                    time.sleep(wait_s)
                    return
                if fd == self.output_fd:
                    self.output_bytes += len(data)
                    self.tail = (self.tail + data)[-_TAIL_BYTES:]
                else:
                    self._take(data, results)
            readable, _, _ = select.select([self.results_fd, self.output_fd], [], [], 0)

    def _take(self, data: bytes, results: Writer) -> None:
        self._buffer += data
        if len(self._buffer) > _LONGEST_MESSAGE_BYTES:
            self._buffer = b""
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.get("type") == "done":
                self.finished = True
                continue
            if message.get("type") == "plan":
                self.plan = message["plan"]
            results.send(message)

    def _exit_status(self) -> Optional[int]:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return status if pid else None

    def _kill_everything(self, reaped: bool) -> None:
        """The process group, then whatever left it and was handed to us as an orphan."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if not reaped:
            os.waitpid(self.pid, 0)
        for orphan in _children_of(os.getpid()):
            try:
                os.kill(orphan, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _reap_all()

    def _end(self, status: Optional[int], time_limit_s: float) -> Dict[str, Any]:
        if self.finished:
            return {"type": "end", "status": "ok"}
        if status is None:
            message = "no answer within {:g} s; the process and all it started were ended".format(time_limit_s)
            return {"type": "end", "status": "error", "reason": "timeout", "message": message}
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            message = "the process died of {}{}".format(name, _HINTS.get(name, ""))
            return {"type": "end", "status": "error", "reason": "crash", "message": message}
        code = os.WEXITSTATUS(status)
        message = "the target ended the process itself with status {} (sys.exit or os._exit)".format(code)
        return {"type": "end", "status": "error", "reason": "exit", "message": message}

    def _output(self) -> Dict[str, Any]:
        return {"output_bytes": self.output_bytes, "output_tail": self.tail.decode("utf-8", "replace")}


_HINTS = {"SIGKILL": ": out of memory, or killed from outside", "SIGSEGV": ": a crash in native code"}


def _run_child(job: Callable[[Writer], None], results_fd: int, output_fd: int) -> None:
    """Never returns. Only a job that ends by itself says `done`; every other end is told by its status."""
    code = 1
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        os.close(output_fd)
        faulthandler.enable()
        writer = Writer(results_fd)
        code = run_and_report(job, writer)
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def run_and_report(job: Callable[[Writer], None], writer: Writer) -> int:
    """Run `job` and send what it raised; returns the exit status. `done` is sent unless it left by SystemExit."""
    try:
        job(writer)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except MemoryError as error:
        writer.send({"type": "failed", "reason": "no_memory", "message": "out of memory: {}".format(error)})
    except BaseException as error:
        traceback.print_exc()
        text = "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:300])
        writer.send({"type": "failed", "reason": "exception", "message": text})
    writer.send({"type": "done"})
    return 0


def _children_of(parent: int) -> List[int]:
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            try:
                with open("/proc/{}/stat".format(name)) as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(name))
    return found


def _reap_all() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return
