"""Where the cache of a tickets folder lies: among the user's caches, never in a repository, which anybody wrote."""

from __future__ import annotations

import os
import stat
from binascii import crc32

_OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_file(folder: str) -> str:
    """The file for what is cached of a folder: by a checksum of its real path, which the file has to repeat.

    Makes the folders above it with mode 0700. "" where there is no place that is the user's alone.
    """
    place = private_folder("tickets")
    return f"{place}/{crc32(os.fsencode(os.path.realpath(folder))):08x}" if place else ""


def read_private(path: str) -> bytes:
    """What a file of ours holds. Raises OSError as `open_private` does."""
    handle = open_private(path)
    try:
        return os.read(handle, os.fstat(handle).st_size + 1)
    finally:
        os.close(handle)


def open_private(path: str) -> int:
    """A descriptor of a file of ours. Raises OSError where it is a link, none of ours, or cannot be read."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or not _is_private(status):
        os.close(handle)
        raise PermissionError(f"others may have written {path}")
    return handle


def private_folder(kind: str) -> str:
    """The folder `kind` among the user's caches, made with mode 0700; "" where it cannot be the user's alone."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.expanduser("~/.cache")
    if not base.startswith("/"):
        return ""
    place = base
    try:
        for name in ("auditkit", kind):
            place = f"{place}/{name}"
            if not _is_private_folder(place):
                return ""
    except OSError:
        return ""
    return place


def _is_private_folder(path: str) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        os.makedirs(path, 0o700, exist_ok=True)
        status = os.lstat(path)
    return stat.S_ISDIR(status.st_mode) and _is_private(status)


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _OPEN_TO_OTHERS
