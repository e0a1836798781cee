"""Start processes on a machine that may have no process or no memory left."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from auditkit.errors import NothingMeasuredError

_Started = TypeVar("_Started")
_PAUSES_S = (0.2, 1.0)
_MISSING = {
    errno.EAGAIN: "the machine cannot start another process",
    errno.ENOMEM: "the machine has no memory left",
}


def start_or_retry(start: Callable[[], _Started]) -> _Started:
    """Return `start()`, called up to three times. Raises NothingMeasuredError if processes or memory have run out."""
    for pause_s in (*_PAUSES_S, None):
        try:
            return start()
        except OSError as error:
            if error.errno not in _MISSING:
                raise
            if pause_s is None:
                raise shortage(error.errno) from None
        time.sleep(pause_s)
    raise AssertionError("the last try returns or raises")


def shortage(number: int) -> NothingMeasuredError:
    """What to raise for EAGAIN or ENOMEM."""
    hint = "end other programs, or raise the limits that `ulimit -a` and the container show; then run this again"
    return NothingMeasuredError(f"{_MISSING[number]}: auditkit cannot go on", hint)
