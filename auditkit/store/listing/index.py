"""A disposable cache of the rows of a tickets folder. Files are the truth; the index only saves reading them.

It lies among the user's own caches and is read with `marshal`, the fastest reader that Python has, and one for
trusted bytes only. Whoever finds it stale, cut short, written by other code, in reach of others or not writable
at all does without it, silently. It is kept by columns, each unpacked when it is first asked for: all rows take
20 ms for 10,000 tickets, a column half of one.
"""

from __future__ import annotations

import marshal
import os

from auditkit.store.folder.second_names import second_names
from auditkit.store.folder.walk import stamp_of, walk
from auditkit.store.listing.index_file import Draft, load
from auditkit.store.listing.rows import PATH

# So many files, and one more of each hundred, are read in a quarter of the time that an index takes to build.
_FEW = 5
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from auditkit.store.folder.walk import Stamps
    from auditkit.store.listing.rows import Oddity, Row


class Index:
    """Every ticket below a folder, by id, and every file that cannot be read as one.

    A ticket's number is its place in the order of ids. `others` are the pages that are no tickets; `packed`
    are the columns of the rows, and what follows from all of them, each by itself.
    """

    def __init__(
        self,
        count: int,
        oddities: list[Oddity],
        broken: list[Row],
        others: list[str],
        packed: dict[int | str, bytes],
    ) -> None:
        self.count = count
        self.oddities = oddities
        self.broken = broken
        self.others = others
        self.packed = packed
        self._unpacked: dict[int | str, Any] = {}

    @property
    def rows(self) -> list[Row]:
        """Everything that is kept of each ticket."""
        from auditkit.store.listing.rows import FIELDS

        return list(zip(*map(self.column, range(FIELDS)), strict=True))

    def column(self, field: int) -> list[Any]:
        """What every ticket has in one field of its row."""
        column: list[Any] = self._part(field)
        return column

    @property
    def listing(self) -> str:
        """The list of the tickets that are not finished, as a pipe gets it."""
        listing: str = self._part("listing")
        return listing

    @property
    def folded(self) -> list[str]:
        """Title and summary of every ticket in lower case, a NUL between them."""
        folded: list[str] = self._part("folded")
        return folded

    @property
    def blocked(self) -> dict[str, list[str]]:
        """As `queue.blockers` finds them."""
        blocked: dict[str, list[str]] = self._part("blocked")
        return blocked

    @property
    def queue(self) -> tuple[list[int], list[int]]:
        """As `queue.queue` finds it."""
        queue: tuple[list[int], list[int]] = self._part("queue")
        return queue

    def _part(self, name: int | str) -> Any:
        if name not in self._unpacked:
            self._unpacked[name] = marshal.loads(self.packed[name])
        return self._unpacked[name]


def index_of(rows: Sequence[Row], broken: list[Row], others: list[str]) -> Index:
    """The index of these rows, which are in the order of ids."""
    from auditkit.store.listing.queue import blockers, queue
    from auditkit.store.listing.rows import FIELDS, IS_FINISHED, SHOWN, SUMMARY, TITLE, aligned, oddities_of

    columns = list(map(list, zip(*rows, strict=True))) or [[] for _ in range(FIELDS)]
    blocked = blockers(rows)
    parts: dict[int | str, Any] = {
        **dict(enumerate(columns)),
        "listing": aligned([row[SHOWN] for row in rows if not row[IS_FINISHED]]),
        "folded": [f"{row[TITLE]}\0{row[SUMMARY]}".casefold() for row in rows],
        "blocked": blocked,
        "queue": queue(rows, blocked),
    }
    packed = {name: marshal.dumps(part) for name, part in parts.items()}
    return Index(len(rows), oddities_of(rows), broken, others, packed)


def read_index(folder: str, found: Stamps | None = None) -> Index:
    """What lies below `folder` now: from the cache what did not change, from the files all else.

    `found` is what a walk through the folder has just found, where there was one. Raises BadInputError where a folder
    cannot be listed.
    """
    stored, index = _load(folder)
    found = _with_own_names(folder, walk(folder) if found is None else found)
    return index if index is not None and found == stored else _refreshed(folder, found, stored, index)


def read_columns(folder: str, *fields: int) -> tuple[list[Row], list[Row], Stamps]:
    """Of every ticket below `folder` its path and these fields, in no order; the broken rows; and what lies there.

    As `read_index`, but quicker while few files have changed: only they are read, and no index is built of them.
    """
    stored, index = _load(folder)
    found = _with_own_names(folder, walk(folder))
    changed = [path for path, stamp in found.items() if stamp is None or stored.get(path) != stamp]
    if index is None or len(changed) > _FEW + len(found) // 100:
        index = _refreshed(folder, found, stored, index)
        changed = []
    kept = found.keys() - set(changed)
    known = zip(index.column(PATH), *map(index.column, fields), strict=True)
    rows = [row for row in known if row[0] in kept]
    broken = [row for row in index.broken if row[0] in kept]
    for row, bad in _read_rows(folder, changed):
        if row is not None:
            rows.append((row[PATH], *(row[field] for field in fields)))
        elif bad is not None:
            broken.append(bad)
    return rows, broken, found


def is_known_ticket(folder: str, path: str) -> bool:
    """Whether the cache knows a file, as it is on disk, for a ticket; False says nothing."""
    stored, index = _load(folder)
    try:
        is_same = index is not None and stored.get(path) == stamp_of(os.stat(f"{folder}/{path}"))
    except OSError:
        return False
    return is_same and index is not None and path not in index.others and all(path != row[0] for row in index.broken)


def _with_own_names(folder: str, found: Stamps) -> Stamps:
    """What was found without the second names of files."""
    second = second_names(folder, found)
    return {path: stamp for path, stamp in found.items() if path not in second} if second else found


def _load(folder: str) -> tuple[Stamps, Index | None]:
    stamps, content = load(folder)
    return stamps, Index(*content) if content is not None else None


def _refreshed(folder: str, found: Stamps, stored: Stamps, old: Index | None) -> Index:
    # Made before a file is opened, so that no file is younger than it looks.
    draft = Draft(folder)
    same = {
        path for path, stamp in found.items() if old is not None and stamp is not None and stored.get(path) == stamp
    }
    rows = [row for row in old.rows if row[0] in same] if old else []
    broken = [row for row in old.broken if row[0] in same] if old else []
    others = [path for path in old.others if path in same] if old else []
    changed = list(found.keys() - same)
    for path, (row, bad) in zip(changed, _read_rows(folder, changed), strict=True):
        if row is not None:
            rows.append(row)
        elif bad is not None:
            broken.append(bad)
        else:
            others.append(path)
    rows.sort(key=_order)
    broken.sort(key=_place)
    index = index_of(rows, broken, others)
    draft.save(found, (index.count, index.oddities, broken, others, index.packed))
    return index


def _read_rows(folder: str, paths: list[str]) -> list[tuple[Row | None, Row | None]]:
    """What `read_row` reads of each path.

    In this process alone: two of them cost a third more processor time, and a start each. Nothing that is read
    makes a circle, so the search for them, a tenth of the time, waits.
    """
    import gc

    from auditkit.store.listing.ticket_rows import read_row

    was_on = gc.isenabled()
    gc.disable()
    try:
        return [read_row(folder, path) for path in paths]
    finally:
        if was_on:
            gc.enable()


def _order(row: Row) -> tuple[Any, ...]:
    return (row[2], row[0])


def _place(broken: Row) -> tuple[list[str], str]:
    """The files of a folder before those of the folders in it."""
    *folders, name = broken[0].split("/")
    return folders, name
