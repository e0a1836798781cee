"""Temporary directories that go away with their owner, however the owner ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

PREFIX = "auditkit-checkout-"
# Between its creation and its owner's lock a directory has no owner; no start takes this long.
_UNOWNED_GRACE_S = 3600.0


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Make a temporary directory and remove it afterwards: on exceptions, Ctrl-C and SIGTERM at once, and after a
    kill -9 by the next call of any process of the same user.

    A lock on the directory tells whether the process that made it still lives: the kernel releases it when the process
    ends. Process ids come around again, and another container on the same disk has its own.
    """
    remove_abandoned()
    with _terminating_signals_raise():
        path, lock = make_scratch()
        try:
            yield path
        finally:
            remove_scratch(path, lock)


def make_scratch() -> tuple[Path, int]:
    """Make a temporary directory; return it with the lock of its owner, for `remove_scratch`."""
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{int(time.time())}-")).resolve()
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return path, lock


def remove_scratch(path: Path, lock: int) -> None:
    """Remove a directory that `make_scratch` made."""
    _remove(path)
    os.close(lock)


def remove_abandoned() -> list[Path]:
    """Remove what killed processes of this user left in the temporary directory."""
    removed = [path for path in Path(tempfile.gettempdir()).glob(PREFIX + "*") if _is_abandoned(path)]
    for path in removed:
        _remove(path)
    return removed


def _is_abandoned(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        found = os.fstat(lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # An empty one may be new: its owner has not locked it yet.
        return found.st_uid == os.getuid() and (
            bool(os.listdir(lock)) or time.time() - found.st_mtime > _UNOWNED_GRACE_S
        )
    except OSError:
        return False
    finally:
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a tree, also one in which the audited code took write permission away."""
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            os.chmod(folder, stat.S_IRWXU)
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _terminating_signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, as Ctrl-C does, instead of ending the process on the spot.

    A handler that the host program installed is left alone, and so is every thread but the main one,
    where Python allows no handlers.
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
