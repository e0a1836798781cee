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
_OWNER_FILE = "owner"
# Between its creation and its owner's lock a directory has no owner; no start takes this long.
_UNOWNED_GRACE_S = 3600.0


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A new temporary directory, removed afterwards: on exceptions, Ctrl-C and SIGTERM at once, and
    after a kill -9 by the next call of any process of the same user.

    Its name says who made it (process id and start time). Whether that process still lives is told by a
    lock on the file `owner` in it, which the kernel releases when the process ends: process ids come
    around again, and another container on the same disk has its own.
    """
    remove_abandoned()
    with _terminating_signals_raise():
        path, lock = make_scratch()
        try:
            yield path
        finally:
            remove_scratch(path, lock)


def make_scratch() -> tuple[Path, int]:
    """A new temporary directory and the lock of its owner, for `remove_scratch`."""
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{int(time.time())}-")).resolve()
    return path, _own(path)


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


def _own(path: Path) -> int:
    """Lock the owner file before it appears under its name, so that nobody finds it unlocked."""
    unnamed = path / f"{_OWNER_FILE}.new"
    descriptor = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unnamed.rename(path / _OWNER_FILE)
    return descriptor


def _is_abandoned(path: Path) -> bool:
    try:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return False
        descriptor = os.open(path / _OWNER_FILE, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return path.is_dir() and time.time() - found.st_mtime > _UNOWNED_GRACE_S
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


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
