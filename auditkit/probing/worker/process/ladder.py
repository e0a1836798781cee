"""Each way to load a target tried in turn, in a fork of its own: a failed one leaves nothing behind for the next."""

import json
import os
import select
import signal
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, TypeVar

from . import families, placeholders, rungs
from .loading import LoadError, dear_imports, import_dear, with_all_it_lacks

_Made = TypeVar("_Made")
_LOADED = b"loaded"
_IN_WORDS = {
    "package": "as a package",
    "file": "without its package",
    "placeholders": "with stand-ins for absent modules",
    "cut_out": "cut out of its file",
}


class Refusal(NamedTuple):
    """What a way to load the target came to instead."""

    rung: str
    error: LoadError


class _Climbed:
    """Of this process: the refusals of the ways before the one that loaded; None where nothing was tried."""

    refusals: Optional[List[Refusal]] = None


def climb(
    load: Callable[[], _Made], places: Sequence[str], roots: List[str], ways: Sequence[str], time_limit_s: float
) -> _Made:
    """What `load` makes by the first of `ways` that loads the module at `places`, or one of several.

    Returns in the process that made it: the ones before it stay behind until it ends, and end like it. What a way
    started that failed is ended. Each but the last takes at most two thirds of the time that is left, and one that
    takes as long is followed by the last. In a process that has climbed already it only loads. Raises LoadError with
    what each way said.
    """
    if _Climbed.refusals is not None:  # not the first target of its module
        try:
            return load()
        except LoadError as error:
            raise _all_said([*_Climbed.refusals, Refusal(rungs.current(), error)], places, roots) from None
    refusals: List[Refusal] = []
    deadline = time.monotonic() + time_limit_s
    waiting = list(ways)
    while waiting:
        way = waiting.pop(0)
        left_s = deadline - time.monotonic()
        limit_s = left_s * 2 / 3 if waiting else left_s
        attempt = _Attempt(places, way, limit_s, time_limit_s)
        if attempt.is_child:
            _Climbed.refusals = refusals
            return attempt.make(load, roots)
        refusals.append(Refusal(way, attempt.outcome()))
        import_dear(attempt.imported)
        if refusals[-1].error.is_final:
            break
        if refusals[-1].error.reason == "timeout":
            waiting = waiting[-1:]  # the others run much of the same
    raise _all_said(refusals, places, roots)


def has_climbed() -> bool:
    """Whether this process has loaded a target."""
    return _Climbed.refusals is not None


def described() -> Dict[str, Any]:
    """How this process loads its target: the rung, what stands in, and what the package said where that is not it."""
    refused = _Climbed.refusals or []
    said = next((each.error.message for each in refused if each.rung == "package"), "")
    return {"rung": rungs.current(), "placeholders": list(placeholders.given()), "package_error": said}


class _Attempt:
    """One way to load, in a fork: the child tells on a pipe what became of it."""

    def __init__(self, places: Sequence[str], way: str, limit_s: float, limit_of_all_s: float) -> None:
        self._places, self._way, self._limit_s, self._limit_of_all_s = places, way, limit_s, limit_of_all_s
        self.imported: List[str] = []
        self._elder = families.children()
        self._read, self._write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self._pid = families.fork()
        except OSError as error:
            text = "the machine cannot start another process: {}".format(error.strerror)
            raise LoadError("no_memory", text, is_final=True) from None
        self.is_child = self._pid == 0
        os.close(self._read if self.is_child else self._write)

    def make(self, load: Callable[[], _Made], roots: List[str]) -> _Made:
        """In the child: load, say so, and go on; where it cannot be loaded, say that and end."""
        families.die_with_parent()
        families.adopt_orphans()
        self._own = os.getpid()
        try:
            rungs.prepare(self._way, self._places, roots)
            made = load()
        except LoadError as error:
            told = {**vars(error), "message": error.message, "imported": dear_imports()}
            self._say(json.dumps(told).encode("utf-8"))
            os._exit(0)
        self._say(_LOADED)
        return made

    def _say(self, words: bytes) -> None:
        if os.getpid() != self._own:
            os._exit(0)  # a copy that the module made of this process when it was imported
        os.write(self._write, words)
        os.close(self._write)

    def outcome(self) -> LoadError:
        """In the parent: why it did not load. Does not return where it did: this process then ends like the child."""
        said = self._listen()
        if said == _LOADED:
            _, status = os.waitpid(self._pid, 0)
            families.end_like(status)
        ended = self._end()
        if said:
            told = json.loads(said)
            self.imported = told["imported"]
            return LoadError(told["reason"], told["message"], told["hint"], tuple(told["missing"]), told["is_final"])
        return LoadError(*self._why_silent(ended))

    def _listen(self) -> bytes:
        """What the child says before its time is up; nothing where it ends without a word."""
        said, deadline = b"", time.monotonic() + self._limit_s
        while select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(self._read, 1 << 16)
            if not piece:
                break
            said += piece
            if said == _LOADED:
                break
        os.close(self._read)
        return said

    def _end(self) -> Optional[int]:
        """End the child and all that it started; its status if it had ended by itself."""
        deadline = time.monotonic() + 0.1
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        while not pid and time.monotonic() < deadline:
            time.sleep(0.002)
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        families.end_children(spared=self._elder)
        return status if pid else None

    def _why_silent(self, status: Optional[int]) -> Any:
        """The reason and the message of an attempt that ended without a word."""
        what = "importing {}: ".format(" and ".join(self._places))
        if status is None:
            text = "no answer within {:g} s; the process and all it started were ended".format(self._limit_of_all_s)
            return "timeout", what + text
        if os.WIFSIGNALED(status):
            return "crash", what + "the process died of {}".format(families.signal_name(os.WTERMSIG(status)))
        text = "the process ended itself with status {} (sys.exit or os._exit)".format(os.WEXITSTATUS(status))
        return "exit", what + text


def _all_said(refusals: List[Refusal], places: Sequence[str], roots: List[str]) -> LoadError:
    """The first refusal, with what the other ways said that is new."""
    # Of several modules each is asked for alone again.
    first = refusals[0].error if len(places) > 1 else with_all_it_lacks(refusals[0].error, places[0], roots)
    ways: Dict[str, List[str]] = {}
    for each in refusals[1:]:
        ways.setdefault(each.error.message, []).append(_IN_WORDS[each.rung])
    ways.pop(refusals[0].error.message, None)
    others = ["{}: {}".format(" and ".join(names), message) for message, names in ways.items()]
    return LoadError(first.reason, "; ".join([first.message, *others]), first.hint, first.missing)
