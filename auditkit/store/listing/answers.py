"""Answers that are used again, in a folder of the user's alone: each entry written whole or not at all.

It lies among the user's caches and never in a repository: whoever wrote that could answer in advance.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib

from auditkit.store.listing.cache_folder import private_folder, read_private

_MOST_BYTES = 64 << 20


class Answers:
    """Entries by their names; `folder` is "" where there is no place that is the user's alone."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self.folder = private_folder("answers")
        self._most_bytes = most_bytes
        self._has_written = False

    def read(self, name: str) -> bytes:
        """An entry. Raises OSError where there is none, or somebody else may have written it, ValueError for a
        damaged one.
        """
        path = self._path(name)
        digest, _, packed = read_private(path).partition(b"\n")
        if hashlib.sha256(packed).hexdigest().encode("ascii") != digest:
            raise ValueError(f"{path} is damaged")
        with contextlib.suppress(OSError):
            os.utime(path)  # what was used last stays longest
        return zlib.decompress(packed)

    def write(self, name: str, data: bytes) -> None:
        """Put an entry in place of another; a full or read-only disk costs only the memory of it."""
        packed = zlib.compress(data, 1)
        path = self._path(name)
        if not self._has_written:
            self._has_written = True
            with contextlib.suppress(OSError):
                self._make_room()
        temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
        with contextlib.suppress(OSError):
            try:
                handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(packed).hexdigest().encode("ascii") + b"\n" + packed)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise

    def _make_room(self) -> None:
        """Remove what was not used for longest, where all is too large: before the first entry of a command."""
        files: list[tuple[int, int, str]] = []
        for name in os.listdir(self.folder):
            with contextlib.suppress(OSError):  # another job removed or renamed it
                found = os.stat(f"{self.folder}/{name}")
                files.append((found.st_mtime_ns, found.st_size, name))
        surplus = sum(size for _, size, _ in files) - self._most_bytes
        for _, size, name in sorted(files):
            if surplus <= 0:
                break
            surplus -= size
            with contextlib.suppress(OSError):
                os.unlink(f"{self.folder}/{name}")

    def _path(self, name: str) -> str:
        if not self.folder:
            raise FileNotFoundError("there is no folder for answers")
        return f"{self.folder}/{name[:40]}"
