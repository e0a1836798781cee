"""A part of the GPU's evidence: small named rows, each measured within its time and written as soon as it is there.

The rows run in a child of this process, one after the other. One that crashes, or hangs where no signal reaches it,
costs itself and a new child; so this process must never initialise CUDA, which does not survive a fork.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Document = dict[str, Any]
WHOLE = "whole"
_GRACE_S = 15.0
"""For a row that was told to stop, which may have to stop a command of its own."""


class StoppedError(BaseException):
    """The time of a row, or of the whole part, is up; no `except Exception` of what runs may swallow it."""


@dataclass(frozen=True)
class Row:
    """One measurement by name and the seconds that it may take; `alone`: it may spoil its process for others."""

    name: str
    measure: Callable[[], Document]
    limit_s: float = 30.0
    alone: bool = False


class Clock:
    """The time of this machine."""

    def now_s(self) -> float:
        return time.monotonic()

    def has_answer(self, pipe: Connection, limit_s: float) -> bool:
        """Whether something came through `pipe` within `limit_s`."""
        return pipe.poll(max(0.0, limit_s))


class StillClock(Clock):
    """Time that does not pass: limits hold for no row, however slow the machine is."""

    def now_s(self) -> float:
        return 0.0

    def has_answer(self, pipe: Connection, limit_s: float) -> bool:  # noqa: ARG002
        return pipe.poll(None)


def run_part(rows: Sequence[Row], path: Path, head: Document, limit_s: float, clock: Clock) -> Document:
    """Measure the rows in their order until `limit_s` is over; `path` always holds what there is, and what is missing.

    A row that raises, crashes, or takes longer than it may is a row with its error. SIGTERM and Ctrl-C end the part
    with a note of the row that they cut off; the note is there, too, where this process could write nothing any more.
    """
    document = {**head, "limit_s": limit_s, "ended": "", "missing": [row.name for row in rows], "rows": {}}
    end_s = clock.now_s() + limit_s
    try:
        with _stopped_by(signal.SIGTERM), contextlib.closing(Child(rows, clock)) as child:
            for row in rows:
                left_s = end_s - clock.now_s()
                if left_s <= 0:
                    break
                document["ended"] = f"cut off in {row.name}"
                _write(path, document)
                document["rows"][row.name] = child.measure(row, min(row.limit_s, left_s))
                document["missing"].remove(row.name)
        document["ended"] = "out of time" if document["missing"] else WHOLE
    except (StoppedError, KeyboardInterrupt):
        pass  # the note is there already
    _write(path, document)
    return document


def _write(path: Path, document: Document) -> None:
    """Put the whole document in the place of the last one, so that no reader and no cut sees a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    os.replace(fresh, path)


@contextlib.contextmanager
def _stopped_by(number: int) -> Iterator[None]:
    before = signal.signal(number, _stop)
    try:
        yield
    finally:
        signal.signal(number, before)


def _stop(*_: object) -> None:
    raise StoppedError("its time was up")


class Child:
    """The process that measures: started when the first row is asked for, and again where one was lost."""

    def __init__(self, rows: Sequence[Row], clock: Clock) -> None:
        self._rows, self._clock = list(rows), clock
        self._process: Any = None
        self._pipe: Any = None
        self._is_busy = False

    def measure(self, row: Row, limit_s: float) -> Document:
        """What the row found, or its error, with its seconds."""
        if row.alone:
            self.close()
        if self._process is None:
            self._start()
        started_s = self._clock.now_s()
        self._is_busy = True
        self._pipe.send(self._rows.index(row))
        found = self._answer(limit_s)
        self._is_busy = False
        seconds = round(self._clock.now_s() - started_s, 2)
        error = f": {found['error']}" if "error" in found else ""
        print(f"{seconds:7.2f} s  {row.name}{error}", file=sys.stderr, flush=True)
        if row.alone:
            self.close()
        return {"seconds": seconds, **found}

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._rows, theirs, self._pipe))
        self._process.start()
        theirs.close()

    def _answer(self, limit_s: float) -> Document:
        if not self._clock.has_answer(self._pipe, limit_s):
            self._process.terminate()
            if not self._pipe.poll(_GRACE_S):
                self._process.kill()
                self.close()
                return {"error": f"stopped after {limit_s:.0f} s; it heard no signal and was killed"}
        try:
            return dict(self._pipe.recv())
        except (EOFError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            return {"error": f"its process ended with {signal.Signals(-code).name if code < 0 else code}"}

    def close(self) -> None:
        """End the process; the next row starts another one."""
        if self._process is None:
            return
        self._pipe.close()  # between rows that is its end
        if self._is_busy:
            self._process.terminate()
        self._process.join(_GRACE_S)
        self._process.kill()
        self._process.join()
        self._process = None


def _serve(rows: Sequence[Row], pipe: Connection, parents_end: Connection) -> None:
    """Measure the rows whose numbers come through `pipe`, until it is closed."""
    parents_end.close()
    # Ctrl-C reaches the parent, which ends this process. Not SIG_IGN, which the commands of rows would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, _stop)
    with contextlib.suppress(EOFError, StoppedError, BrokenPipeError):
        while True:
            row = rows[pipe.recv()]
            try:
                found = row.measure()
            except (Exception, StoppedError) as error:
                found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"}
            pipe.send(found)
