"""Read a regular file of a checkout, but no pipe, device or huge sparse file."""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path

MAX_FILE_BYTES = 2_000_000
"""Larger files are generated, not written by a person."""


def open_file(path: str | Path, flags: int = 0) -> FileIO:
    """Open a regular file for reading. Raises OSError for anything else, without waiting for a pipe."""
    file = FileIO(path, opener=lambda path, read: os.open(path, read | flags | os.O_NONBLOCK | os.O_NOCTTY))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(None, "no regular file", str(path))
    return file


def read_file(path: str | Path, most: int = MAX_FILE_BYTES) -> bytes | None:
    """Return the bytes of a regular file, None if there are more than `most`. Raises OSError."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            return None
        data = file.readall()
    return data if len(data) <= most else None


def lies_inside(path: Path, folder: Path) -> bool:
    """Return whether a file is in a folder after following links."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def read_text(path: str | Path) -> str:
    """Return a source as text; "" if it is too large or cannot be read."""
    try:
        return (read_file(path) or b"").decode("utf-8", "replace")
    except OSError:
        return ""
