"""One writer at a time in a tickets folder: `flock` on a side file, freed when its holder dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from auditkit.errors import StoreConflictError
from auditkit.model.text import inert_line
from auditkit.store.folder import files
from auditkit.store.folder.side_folder import SIDE_FOLDER, make_side_folder

DEFAULT_TIMEOUT_S = 30.0
_POLL_S = 0.005
_TOLD_AFTER_S = 1.0
# A process before us that was stopped while it waits holds up nobody for longer.
_PATIENCE_S = 10.0
# After so many places, and where nobody waits, the line begins at its first place again.
_MOST_PLACES = 4096
_COMMAND_CHARACTERS = 100
tell: Callable[[str], None] | None = None
"""Gets the sentence that says for whom this process waits, once a wait; set by who talks to the user."""


@contextlib.contextmanager
def locked(folder: Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock of the tickets folder `folder`, which is made where it is missing; who came first gets it first.

    Raises StoreConflictError when another process still holds it after `timeout_s` seconds, when the lock
    file cannot be made, or when a link stands where it or its folder should be.
    """
    if files.plan is not None:
        yield  # a dry run writes nothing, so it keeps nobody waiting
        return
    with _Place(folder) as place:
        handle = _acquire(folder, place, timeout_s)
    try:
        files.temporaries = folder / SIDE_FOLDER
        files.remove_leftovers(files.temporaries)
        yield
    finally:
        files.temporaries = None
        os.close(handle)


def _acquire(folder: Path, place: _Place, timeout_s: float) -> int:
    asked = time.monotonic()
    is_told = False
    while True:
        waited_s = time.monotonic() - asked
        # Only who is first looks at the lock itself: sixteen that all do take more time than their writes.
        if (place.is_first() or waited_s > _PATIENCE_S) and (handle := _try(folder)) is not None:
            return handle
        if waited_s >= timeout_s:
            raise StoreConflictError(
                f"{folder} is locked by {_holder(folder)} for more than {timeout_s:g} s",
                "wait until that auditkit is done, or stop it; the lock goes with its holder",
            )
        if waited_s > _TOLD_AFTER_S and not is_told and tell is not None:
            is_told = True
            tell(f"waiting for {_holder(folder)}, which writes to {folder}")
        time.sleep(_POLL_S)


def _try(folder: Path) -> int | None:
    """The locked file, None where another process has it."""
    handle, path = _open(folder, "lock")
    try:
        if _try_lock(handle, path) and _is_still_at(handle, path):
            _sign(handle)
            return handle
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _holder(folder: Path) -> str:
    handle, _ = _open(folder, "lock")
    with os.fdopen(handle, "rb") as file:
        signed = inert_line(file.read(4 * _COMMAND_CHARACTERS).decode("utf-8", "replace"))
    return f"process {signed}" if signed else "another process"


def _sign(handle: int) -> None:
    """Write down who holds the lock. It is only for messages: a full disk is told by the write that follows."""
    program, *words = sys.argv or [""]
    name = os.path.basename(os.path.dirname(program) if program.endswith("__main__.py") else program)
    command = inert_line(" ".join([name, *words]))[:_COMMAND_CHARACTERS]
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} ({command})\n".encode(), 0)


class _Place:
    """Our place in the line of those that want the lock: a byte of a side file, locked as long as we wait.

    Who finds no locked byte before its own is first. The line is for fairness alone: where it cannot be kept,
    everybody is first.
    """

    def __init__(self, folder: Path) -> None:
        self._number = 0
        self._handle, _ = _open(folder, "lock-line", os.O_APPEND)

    def __enter__(self) -> _Place:
        with contextlib.suppress(OSError):
            os.write(self._handle, b".")
            self._number = os.lseek(self._handle, 0, os.SEEK_CUR) - 1
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._number)
        return self

    def __exit__(self, *_: object) -> None:
        if self._number >= _MOST_PLACES and self._is_free(0, self._number + 1):
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, 0)
        os.close(self._handle)

    def is_first(self) -> bool:
        """Whether nobody waits who came before."""
        return self._number <= 0 or self._is_free(self._number, 0)

    def _is_free(self, length: int, start: int) -> bool:
        """Whether no other process has a place among `length` bytes (0: all) from `start`."""
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        except OSError as error:
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True


def _open(folder: Path, name: str, flags: int = 0) -> tuple[int, Path]:
    try:
        path = make_side_folder(folder) / name
        # A link here would have any file of the user's made or emptied.
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o666), path
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreConflictError(
                f"{error.filename} is a link; nothing is written through it", "remove it"
            ) from None
        raise StoreConflictError(
            f"cannot lock {folder}: {error.strerror} ({error.filename or folder})",
            "check that the tickets folder is yours to write and that the disk has room",
        ) from error


def _try_lock(handle: int, path: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise StoreConflictError(
            f"this file system cannot lock {path}: {error.strerror}",
            "keep the tickets folder on a local disk",
        ) from error
    return True


def _is_still_at(handle: int, path: Path) -> bool:
    """Whether the locked file is the one under the name: someone may have removed the side folder."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
