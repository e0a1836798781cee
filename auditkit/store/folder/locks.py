"""One writer at a time in a tickets folder: `flock` on a side file, freed when its holder dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from auditkit.errors import StoreConflictError
from auditkit.store.folder import files
from auditkit.store.folder.side_folder import make_side_folder

DEFAULT_TIMEOUT_S = 30.0
_POLL_S = 0.005


@contextlib.contextmanager
def locked(folder: Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock of the tickets folder `folder`, which is made where it is missing.

    Raises StoreConflictError when another process still holds it after `timeout_s` seconds, when the lock
    file cannot be made, or when a link stands where it or its folder should be.
    """
    if files.plan is not None:
        yield  # a dry run writes nothing, so it keeps nobody waiting
        return
    handle = _acquire(folder, time.monotonic() + timeout_s, timeout_s)
    try:
        yield
    finally:
        os.close(handle)


def _acquire(folder: Path, deadline: float, timeout_s: float) -> int:
    while True:
        handle, path = _open(folder)
        try:
            if _try_lock(handle, path) and _is_still_at(handle, path):
                # Who holds it is only for messages: a full disk is told by the write that follows.
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                return handle
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if time.monotonic() >= deadline:
            raise StoreConflictError(
                f"{folder} is locked by process {holder or '?'} for more than {timeout_s:g} s",
                "wait until that auditkit is done, or stop it; the lock goes with its holder",
            )
        time.sleep(_POLL_S)


def _open(folder: Path) -> tuple[int, Path]:
    try:
        path = make_side_folder(folder) / "lock"
        # A link here would have any file of the user's made or emptied.
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), path
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
