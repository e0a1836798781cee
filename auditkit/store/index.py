"""A disposable cache of the rows of a tickets folder. Files are the truth; the index only saves reading them.

It lies among the user's own caches and is read with `marshal`, the fastest reader that Python has, and one for
trusted bytes only. Whoever finds it stale, cut short, written by other code, in reach of others or not writable
at all does without it, silently.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import stat
import sys
from binascii import crc32

from auditkit.store.cache_folder import cache_file, read_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from auditkit.store.rows import Line, Oddity, Row

    Stamp = tuple[int, int, int, int]
    Stamps = dict[str, Stamp | None]

_MAGIC = b"auditkit index\n"
_TEMP = ".auditkit-tmp."

# A file that changed this long before it was looked at, or later, may change again within the same tick of its
# clock: kernels advance file times every 10 ms at most, but some file systems keep whole seconds, FAT every two.
# A file system of its own may also have a clock of its own, a server's.
_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_100_000_000
_ABANDONED_NS = 60_000_000_000
_UNUSED_NS = 30 * 24 * 3600 * 1_000_000_000


class Index:
    """Every ticket below a folder, by id, and every file that cannot be read as one.

    `lines` and `oddities` are what a list of all tickets says; `rows` are unpacked when they are first asked for.
    `others` are the pages that are no tickets.
    """

    def __init__(
        self, lines: list[Line], oddities: list[Oddity], broken: list[Row], others: list[str], packed: bytes
    ) -> None:
        self.lines = lines
        self.oddities = oddities
        self.broken = broken
        self.others = others
        self.packed = packed

    @property
    def rows(self) -> list[Row]:
        """Everything that is kept of each ticket, in the order of the lines."""
        rows: list[Row] = marshal.loads(self.packed)
        return rows


def read_index(folder: str) -> Index:
    """What lies below `folder` now: from the cache what did not change, from the files all else.

    Raises BadInputError where a folder cannot be listed.
    """
    stored, index = _load(folder)
    found = _walk(folder)
    return index if index is not None and found == stored else _refreshed(folder, found, stored, index)


def is_known_ticket(folder: str, path: str) -> bool:
    """Whether the cache knows a file, as it is on disk, for a ticket; False says nothing."""
    stored, index = _load(folder)
    try:
        is_same = index is not None and stored.get(path) == _stamp(os.stat(f"{folder}/{path}"))
    except OSError:
        return False
    return is_same and index is not None and path not in index.others and all(path != row[0] for row in index.broken)


def named_files(folder: str, ticket_id: str) -> list[str]:
    """The files that are named `ticket_id`, relative to the folder, in any case; none of them is opened.

    Raises BadInputError where a folder cannot be listed.
    """
    wanted = f"{ticket_id.lower()}.md"
    found = [prefix + entry.name for prefix, entries in _folders(folder) for entry in entries]
    return sorted(path for path in found if path.lower().endswith(wanted) and path.rpartition("/")[2].lower() == wanted)


# Folders.


def _walk(folder: str) -> Stamps:
    """Every Markdown file below a folder with its stamp, None for what is no regular file."""
    stamps: Stamps = {}
    for prefix, entries in _folders(folder):
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:
                stamps[prefix + entry.name] = None
                continue
            stamps[prefix + entry.name] = _stamp(status) if stat.S_ISREG(status.st_mode) else None
    return stamps


def _folders(folder: str) -> list[tuple[str, list[os.DirEntry[str]]]]:
    """Each folder's prefix (`batch7/`) and Markdown files; hidden folders and links to folders left out."""
    found = []
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        inner, files = _listed(folder, prefix)
        found.append((prefix, files))
        waiting += inner
    return found


def _listed(folder: str, prefix: str) -> tuple[list[str], list[os.DirEntry[str]]]:
    inner: list[str] = []
    files: list[os.DirEntry[str]] = []
    try:
        with os.scandir(f"{folder}/{prefix}") as entries:
            for entry in entries:
                name = entry.name
                if name.startswith("."):
                    continue
                if entry.is_dir():
                    if not entry.is_symlink():
                        inner.append(f"{prefix}{name}/")
                elif name[-3:].lower() == ".md":
                    files.append(entry)
    except FileNotFoundError:
        pass
    except OSError as error:
        from auditkit.errors import BadInputError

        raise BadInputError(f"cannot read the tickets folder {error.filename}: {error.strerror}") from error
    return inner, files


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


# Reading what is not known.


def _refreshed(folder: str, found: Stamps, stored: Stamps, old: Index | None) -> Index:
    from auditkit.store.quick_rows import read_row
    from auditkit.store.rows import line_of, oddities_of

    temporary, now, tick = _temporary(folder)
    same = {
        path for path, stamp in found.items() if old is not None and stamp is not None and stored.get(path) == stamp
    }
    rows = [row for row in old.rows if row[0] in same] if old else []
    broken = [row for row in old.broken if row[0] in same] if old else []
    others = [path for path in old.others if path in same] if old else []
    for path, stamp in found.items():
        if path in same:
            continue
        row, bad = read_row(folder, path, stamp[1] if stamp else 0)
        if row is not None:
            rows.append(row)
        elif bad is not None:
            broken.append(bad)
        else:
            others.append(path)
    rows.sort(key=_order)
    broken.sort(key=_place)
    index = Index(list(map(line_of, rows)), oddities_of(rows), broken, others, marshal.dumps(rows))
    if temporary:
        settled = {
            path: None if stamp and _may_change_unseen(stamp, now, tick) else stamp for path, stamp in found.items()
        }
        _save(folder, temporary, settled, index)
    return index


def _order(row: Row) -> tuple[Any, ...]:
    return (row[2], row[0])


def _place(broken: Row) -> tuple[list[str], str]:
    """The files of a folder before those of the folders in it."""
    *folders, name = broken[0].split("/")
    return folders, name


def _may_change_unseen(stamp: Stamp, now: int, tick: int) -> bool:
    """Whether a file was written so shortly before `now` that its next change could leave its times as they are."""
    newest = max(stamp[2], stamp[3])
    is_coarse = newest % 1_000_000_000 == 0
    return newest >= now - (_COARSE_TICK_NS if is_coarse else tick)


# The file.


def _load(folder: str) -> tuple[Stamps, Index | None]:
    """The stamps of the files as they were indexed, None for one that has to be read again, and the index.

    Nothing where there is no index, or none that this code wrote of this folder.
    """
    try:
        data = memoryview(read_private(cache_file(folder)))
        head = len(_MAGIC) + 4
        if data[: len(_MAGIC)] != _MAGIC or crc32(data[head:]) != int.from_bytes(data[head - 4 : head]):
            return {}, None
        written_by, stamps, columns, *others = marshal.loads(data[head:])
        is_ours = written_by == _writer(folder)
        return (stamps, Index(list(zip(*columns, strict=True)), *others)) if is_ours else ({}, None)
    except (OSError, ValueError, TypeError, EOFError):
        return {}, None


def _save(folder: str, temporary: str, stamps: Stamps, index: Index) -> None:
    # Six lists load faster than ten thousand tuples.
    columns = [list(column) for column in zip(*index.lines, strict=True)]
    kept = (_writer(folder), stamps, columns, index.oddities, index.broken, index.others, index.packed)
    payload = marshal.dumps(kept)
    try:
        with open(temporary, "wb") as file:
            file.write(_MAGIC + crc32(payload).to_bytes(4) + payload)
        os.replace(temporary, cache_file(folder))
    except OSError:
        _remove(temporary)


def _temporary(folder: str) -> tuple[str, int, int]:
    """A new file beside the index, its time, and the tick of the clock that stamps tickets; else "" and 0 twice."""
    place, _, name = cache_file(folder).rpartition("/")
    if not place:
        return "", 0, 0
    path = f"{place}/{_TEMP}{name}.{os.urandom(6).hex()}"
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        status = os.fstat(handle)
        os.close(handle)
        tick = _TICK_NS if status.st_dev == os.stat(folder).st_dev else _COARSE_TICK_NS
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


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _writer(folder: str) -> tuple[Any, ...]:
    """What an index was written of and by: the folder, this Python, and every file of the code that reads tickets.

    An installation or an edit of that code makes new files or times, so nobody has to raise a number.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parts = []
    for part in ("model", "rules", "store"):
        with os.scandir(f"{package}/{part}") as entries:
            parts += sorted((entry.name, *_stamp(entry.stat())) for entry in entries if entry.name.endswith(".py"))
    return (os.path.realpath(folder), sys.hexversion, package, tuple(parts))
