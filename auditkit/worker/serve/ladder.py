"""Try each way to load a target in turn, in a separate fork, so that a failed one has no effect on the next."""

import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

from . import families, loading, placeholders
from .loading import LoadError

APART = "apart"
"""The reason of a module that loads but whose process cannot be forked: each job loads it for itself."""
_Made = TypeVar("_Made")
_LOADED = b"loaded"


class _Climbed:
    """State of this process: the failures before the way that loaded; None before any was tried."""

    refusals: Optional[List[Tuple[str, LoadError]]] = None


def climb(
    load: Callable[[], _Made], places: Sequence[str], roots: List[str], ways: Sequence[str], time_limit_s: float
) -> _Made:
    """Return what `load` returns by the first of `ways` that loads the module at `places`.

    The function returns in the fork that loaded it. The calling process waits for that fork, ends its orphans, and ends
    with its status. Processes of failed ways are ended. Each way but the last may take at most two thirds of the
    remaining time. If this process has already loaded a target, only call
    `load`. Raises LoadError with the message of each way, and OSError if no process can be started.
    """
    if _Climbed.refusals is not None:  # another target of the same module
        return load()
    refusals: List[Tuple[str, LoadError]] = []
    deadline = time.monotonic() + time_limit_s
    waiting = list(ways)
    while waiting:
        way = waiting.pop(0)
        left_s = deadline - time.monotonic()
        elder = families.children()
        pid, fd = families.fork_with_pipe()
        if pid == 0:
            made = _load_here(load, places, roots, way, fd)
            _Climbed.refusals = refusals
            return made
        said = _listen(fd, left_s * 2 / 3 if waiting else left_s)
        if said == _LOADED:
            _, status = os.waitpid(pid, 0)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            families.end_children(spared=elder)
            families.end_like(status)
        ended = _end(pid, elder)
        if said:
            refusals.append((way, LoadError(**json.loads(said))))
        else:
            reason, message = families.describe_end(ended, time_limit_s)
            where = "importing {}: {}".format(" and ".join(places), message)
            refusals.append((way, LoadError(reason, where)))
        last = refusals[-1][1]
        if last.reason == APART:
            raise last
        if last.is_final:
            break
    first = refusals[0][1]
    messages = dict.fromkeys(error.message for _, error in refusals)
    raise LoadError(first.reason, "; ".join(messages), first.hint, first.missing)


def described() -> Dict[str, Any]:
    """Describe how this process loads its target: the way, the stubs, and why the package did not load."""
    package_error = next((error.message for way, error in _Climbed.refusals or [] if way == "package"), "")
    return {"rung": loading.current(), "placeholders": list(placeholders.given()), "package_error": package_error}


def _load_here(load: Callable[[], _Made], places: Sequence[str], roots: List[str], way: str, write: int) -> _Made:
    """Load in the fork and report it on the pipe; if that fails, report why and end."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    families.die_with_parent()
    families.adopt_orphans()
    own, words, made = os.getpid(), _LOADED, None
    try:
        loading.prepare(way, places, roots)
        made = load()
    except LoadError as error:
        words = json.dumps(vars(error)).encode("utf-8")
    if os.getpid() != own:
        os._exit(0)  # The module forked this process when it was imported.
    os.write(write, words)
    os.close(write)
    if words != _LOADED:
        os._exit(0)
    return made  # type: ignore[return-value]


def _listen(read: int, limit_s: float) -> bytes:
    """Read the fork's message within the time limit; empty if the fork ends without one."""
    said, deadline = b"", time.monotonic() + limit_s
    while select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(read, 1 << 16)
        said += piece
        if not piece or said == _LOADED:
            break
    os.close(read)
    return said


def _end(pid: int, elder: Sequence[int]) -> Optional[int]:
    """End a fork and all processes that it started; return its status if it had already ended."""
    deadline = time.monotonic() + 0.1
    found, status = os.waitpid(pid, os.WNOHANG)
    while not found and time.monotonic() < deadline:
        time.sleep(0.002)
        found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    families.end_children(spared=elder)
    return status if found else None
