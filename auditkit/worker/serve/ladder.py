"""Try each way to load a target in turn, in a fork of its own: a failed one leaves nothing behind for the next."""

import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, TypeVar

from . import families, placeholders, rungs
from .loading import LoadError, dear_imports, import_dear

APART = "apart"
"""The reason of a module that is loaded and whose process cannot be forked."""
_Made = TypeVar("_Made")
_LOADED = b"loaded"
_IN_WORDS = {
    "package": "as a package",
    "file": "without its package",
    "placeholders": "with stubs for absent modules",
    "cut_out": "cut out of its file",
}


class _Refusal(NamedTuple):
    """Why a way did not load the target."""

    rung: str
    error: LoadError


class _Climbed:
    """Of this process: the refusals of the ways before the one that loaded; None before any was tried."""

    refusals: Optional[List[_Refusal]] = None


def climb(
    load: Callable[[], _Made], places: Sequence[str], roots: List[str], ways: Sequence[str], time_limit_s: float
) -> _Made:
    """Return what `load` makes by the first of `ways` that loads the module at `places`, or one of several.

    It returns in the fork that loaded it. The process that called it waits for that fork, ends what it left behind and
    ends like it. What a failed way started is ended. Each way but the last takes at most two thirds of the time that is
    left; after one that takes as long, the last one follows. A process that has loaded a target only calls `load`.
    Raises LoadError with what each way said, and OSError if no process can be started.
    """
    if _Climbed.refusals is not None:  # not the first target of its module
        try:
            return load()
        except LoadError as error:
            raise _all_refusals([*_Climbed.refusals, _Refusal(rungs.current(), error)]) from None
    refusals: List[_Refusal] = []
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
            imported, fields = json.loads(said)
            import_dear(imported)
            refusals.append(_Refusal(way, LoadError(**fields)))
        else:
            reason, message = families.describe_end(ended, time_limit_s)
            where = "importing {}: {}".format(" and ".join(places), message)
            refusals.append(_Refusal(way, LoadError(reason, where)))
        last = refusals[-1].error
        if last.reason == APART:
            raise last
        if last.is_final:
            break
        if last.reason == "timeout":
            waiting = waiting[-1:]  # the others run much of the same
    raise _all_refusals(refusals)


def has_climbed() -> bool:
    """Return whether this process has loaded a target."""
    return _Climbed.refusals is not None


def described() -> Dict[str, Any]:
    """Describe how this process loads its target: the rung, what stands in, and why its package did not do."""
    refused = _Climbed.refusals or []
    package_error = next((each.error.message for each in refused if each.rung == "package"), "")
    return {"rung": rungs.current(), "placeholders": list(placeholders.given()), "package_error": package_error}


def _load_here(load: Callable[[], _Made], places: Sequence[str], roots: List[str], way: str, write: int) -> _Made:
    """Load in the fork and say so on the pipe; if that fails, say why and end."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    families.die_with_parent()
    families.adopt_orphans()
    own, words, made = os.getpid(), _LOADED, None
    try:
        rungs.prepare(way, places, roots)
        made = load()
    except LoadError as error:
        words = json.dumps([dear_imports(), vars(error)]).encode("utf-8")
    if os.getpid() != own:
        os._exit(0)  # a copy that the module made of this process when it was imported
    os.write(write, words)
    os.close(write)
    if words != _LOADED:
        os._exit(0)
    return made  # type: ignore[return-value]


def _listen(read: int, limit_s: float) -> bytes:
    """Read what the fork says before its time is up; nothing if it ends without a word."""
    said, deadline = b"", time.monotonic() + limit_s
    while select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(read, 1 << 16)
        said += piece
        if not piece or said == _LOADED:
            break
    os.close(read)
    return said


def _end(pid: int, elder: Sequence[int]) -> Optional[int]:
    """End a fork and all that it started; return its status if it had ended by itself."""
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


def _all_refusals(refusals: List[_Refusal]) -> LoadError:
    """Return the first refusal, with what the other ways said that is new."""
    first = refusals[0].error
    ways: Dict[str, List[str]] = {}
    for each in refusals[1:]:
        ways.setdefault(each.error.message, []).append(_IN_WORDS[each.rung])
    ways.pop(refusals[0].error.message, None)
    others = ["{}: {}".format(" and ".join(names), message) for message, names in ways.items()]
    return LoadError(first.reason, "; ".join([first.message, *others]), first.hint, first.missing)
