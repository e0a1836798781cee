"""Folders of auditkit among the user's caches, which no other user can write."""

from __future__ import annotations

import os
import stat

_OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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
