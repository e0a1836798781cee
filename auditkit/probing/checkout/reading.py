"""Read a file of a checkout, and nothing else that lies in its place: a pipe, a device, ten gigabytes of holes."""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path

MAX_FILE_BYTES = 2_000_000
"""Larger files are generated; none of them is source code that a person wrote."""


def open_file(path: str | Path, flags: int = 0) -> FileIO:
    """A regular file, open to be read. Raises OSError for anything else; a pipe is not waited for."""
    file = FileIO(path, opener=lambda path, read: os.open(path, read | flags | os.O_NONBLOCK | os.O_NOCTTY))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(None, "no regular file", str(path))
    return file


def read_file(path: str | Path, most: int = MAX_FILE_BYTES) -> bytes | None:
    """The bytes of a regular file, None for one with more than `most` of them. Raises OSError."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            return None
        data = file.readall()
    return data if len(data) <= most else None


def lies_inside(path: Path, folder: Path) -> bool:
    """Whether a file lies in a folder, wherever links on its way lead to."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def read_text(path: str | Path) -> str:
    """A source as text; "" where it is too large or cannot be read."""
    try:
        return (read_file(path) or b"").decode("utf-8", "replace")
    except OSError:
        return ""
