"""Temporary directories that are removed with their owner: on exceptions, Ctrl-C and SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Create a temporary directory and remove it afterwards, also on exceptions, Ctrl-C and SIGTERM."""
    with _terminating_signals_raise(), make_scratch() as name:
        yield Path(name).resolve()


def make_scratch() -> tempfile.TemporaryDirectory[str]:
    """Create a temporary directory; `cleanup` removes it, even if the audited code removed write permissions in it."""
    return tempfile.TemporaryDirectory(prefix="auditkit-", ignore_cleanup_errors=True)


@contextlib.contextmanager
def _terminating_signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, as Ctrl-C does, instead of ending the process at once.

    Handlers of the host program stay; outside the main thread, Python allows no handlers.
    """
    restore: list[tuple[signal.Signals, Callable[[int, FrameType | None], object] | int | None]] = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                restore.append((number, signal.signal(number, _raise_exit)))
    try:
        yield
    finally:
        for number, handler in restore:
            signal.signal(number, handler)


def _raise_exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
