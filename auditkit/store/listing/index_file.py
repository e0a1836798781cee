"""The file of an index: read where only its owner can have written it, and replaced as a whole."""

from __future__ import annotations

import marshal
import os
import sys
from binascii import crc32

from auditkit.store.folder.walk import stamp_of
from auditkit.store.listing.cache_folder import cache_file, read_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from auditkit.store.folder.walk import Stamp, Stamps

PACKAGE = os.path.abspath(__file__).rpartition("/store/")[0]
MAGIC = b"auditkit index\n"
_TEMP = ".auditkit-tmp."

# A file that changed this long before it was looked at, or later, may change again within the same tick of its
# clock: kernels advance file times every 10 ms at most, but some file systems keep whole seconds, FAT every two.
# A file system of its own may also have a clock of its own, a server's.
TICK_NS = 100_000_000
COARSE_TICK_NS = 2_100_000_000
_ABANDONED_NS = 60_000_000_000
_UNUSED_NS = 30 * 24 * 3600 * 1_000_000_000


def load(folder: str) -> tuple[Stamps, tuple[Any, ...] | None]:
    """The stamps of the files as they were indexed, None for one that has to be read again, and the content.

    Nothing where there is no index, or none that this code wrote of this folder.
    """
    try:
        data = memoryview(read_private(cache_file(folder)))
        head = len(MAGIC) + 4
        if data[: len(MAGIC)] != MAGIC or crc32(data[head:]) != int.from_bytes(data[head - 4 : head]):
            return {}, None
        written_by, stamps, content = marshal.loads(data[head:])
        return (stamps, content) if written_by == writer(folder) else ({}, None)
    except (OSError, ValueError, TypeError, EOFError):
        return {}, None


class Draft:
    """A file beside the index that will replace it, and when it was made by the clock that stamps tickets.

    `kind` ends the name of a file that replaces another one than the index. Where it cannot be made it is not there,
    and nothing will be saved.
    """

    def __init__(self, folder: str, kind: str = "") -> None:
        self._folder = folder
        self._kind = kind
        self._path, self._now, self._tick = _made(folder)

    def save(self, found: Stamps, content: tuple[Any, ...]) -> None:
        """Put the index in its place; silently not, where that cannot be done."""
        if self._path:
            payload = marshal.dumps((writer(self._folder), self.settled(found), content))
            self.put([MAGIC, crc32(payload).to_bytes(4), payload])

    def settled(self, found: Stamps) -> Stamps:
        """The stamps, without those of files that may change again before their stamps can."""
        now, tick = self._now, self._tick
        return {path: None if stamp and may_change_unseen(stamp, now, tick) else stamp for path, stamp in found.items()}

    def put(self, parts: Iterable[bytes]) -> None:
        """Write the parts and put the file in its place; silently not, where that cannot be done."""
        if not self._path:
            return
        try:
            with open(self._path, "wb") as file:
                file.writelines(parts)
            os.replace(self._path, cache_file(self._folder) + self._kind)
        except OSError:
            try:
                os.unlink(self._path)
            except OSError:
                return


def may_change_unseen(stamp: Stamp, now: int, tick: int) -> bool:
    """Whether a file was written so shortly before `now` that its next change could leave its times as they are."""
    newest = max(stamp[2], stamp[3])
    is_coarse = newest % 1_000_000_000 == 0
    return newest >= now - (COARSE_TICK_NS if is_coarse else tick)


def _made(folder: str) -> tuple[str, int, int]:
    """A new file, its time, and the tick of the clock; "" and 0 twice where there is no place for it."""
    place, _, name = cache_file(folder).rpartition("/")
    if not place:
        return "", 0, 0
    path = f"{place}/{_TEMP}{name}.{os.urandom(6).hex()}"
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        status = os.fstat(handle)
        os.close(handle)
        tick = TICK_NS if status.st_dev == os.stat(folder).st_dev else COARSE_TICK_NS
        _remove_abandoned(place, status.st_mtime_ns)
    except OSError:
        return "", 0, 0
    return path, status.st_mtime_ns, tick


def _remove_abandoned(place: str, now: int) -> None:
    """Remove what builders that were killed left behind, and indexes that were not written for a month."""
    for name in os.listdir(place):
        age_ns = _ABANDONED_NS if name.startswith(_TEMP) else _UNUSED_NS
        path = f"{place}/{name}"
        try:
            if os.stat(path).st_mtime_ns < now - age_ns:
                os.unlink(path)
        except FileNotFoundError:
            continue


def writer(folder: str) -> tuple[Any, ...]:
    """What an index was written of and by: the folder, this Python, and every file of the code that reads tickets.

    An installation or an edit of that code makes new files or times, so nobody has to raise a number.
    """
    parts = [part for name in ("model", "rules", "store") for part in _sources(f"{PACKAGE}/{name}")]
    return (os.path.realpath(folder), sys.hexversion, PACKAGE, tuple(sorted(parts)))


def _sources(folder: str) -> Iterator[tuple[str, Stamp]]:
    """Every Python file of a folder and the folders in it, with its stamp."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, stamp_of(entry.stat())
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _sources(entry.path)
