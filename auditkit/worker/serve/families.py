"""Start and end process trees: adopt orphans, end all descendants, die with the parent."""

import contextlib
import ctypes
import os
import re
import signal
import sys
import time
from typing import Collection, List, NoReturn, Optional, Sequence, Tuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_S = 5.0
_HINTS = {"SIGKILL": ": out of memory, or killed from outside", "SIGSEGV": ": a crash in native code"}
# Messages of Python, the C library, the dynamic loader, OpenBLAS and torch.
_OUT_OF_MEMORY = re.compile(
    r"MemoryError|bad_alloc|(cannot|can't|unable to) allocate|memory allocation|failed to map segment", re.IGNORECASE
)


def is_out_of_memory(text: str) -> bool:
    """Return whether an error's text, or the last line of a process, says that memory ran out."""
    return _OUT_OF_MEMORY.search(text) is not None


def fork_with_pipe(closed: Sequence[int] = ()) -> Tuple[int, int]:
    """Fork with a pipe from the child: return (pid, read end), in the child (0, write end).

    The child closes the descriptors `closed`. Raises OSError if processes or memory have run out.
    """
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    for fd in (write,) if pid else (read, *closed):
        os.close(fd)
    return pid, read if pid else write


def die_with_parent() -> None:
    """End this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant, so that it can be ended too."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    """Call prctl on Linux; on other systems the process group must be enough."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def children() -> List[int]:
    """Return the living children of this process, including adopted ones."""
    try:  # Usually there is none, which the kernel says at once.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):  # macOS has waitid since Python 3.13, and no /proc.
        return []
    own, found = os.getpid(), []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            try:
                with open("/proc/{}/stat".format(name)) as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == own and fields[0] != "Z":
                found.append(int(name))
    return found


def end_children(spared: Collection[int] = ()) -> None:
    """Kill every child but `spared`, then their orphans, until none is left."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        condemned = [pid for pid in children() if pid not in spared]
        if not condemned:
            return
        for pid in condemned:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def describe_end(status: Optional[int], limit_s: float, flooded: bool = False) -> Tuple[str, str]:
    """Return the reason and the message for a process that ended without a result; status None: auditkit ended it."""
    if flooded:
        return "protocol", "it printed more than 10 MB; the process and all it started were ended"
    if status is None:
        return "timeout", "no result within {:g} s; the process and all it started were ended".format(limit_s)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else "signal {}".format(number)
        return "crash", "the process died of {}{}".format(name, _HINTS.get(name, ""))
    code = os.WEXITSTATUS(status)
    return "exit", "the target ended the process itself with status {} (sys.exit or os._exit)".format(code)


def end_like(status: int) -> NoReturn:
    """End this process as another one ended: with its exit status or by its signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
