"""A folder of tickets: list them, find one, give out ids, change one, file what an audit found.

A finding finds its ticket by the fingerprint in the ticket's evidence block, and by nothing else. When
people remove the block, or its markers, the next audit that reproduces the finding files a new ticket.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from auditkit.errors import BadInputError, StoreConflictError, nearest_names
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import TicketId, format_ticket_id, id_parts, is_ticket_id, parse_ticket_id
from auditkit.model.tickets.ticket import BrokenTicket, Ticket
from auditkit.store.folder import files
from auditkit.store.folder.branches import ids_on_branches
from auditkit.store.folder.files import create_file, ensure_writable, remove_file, remove_leftovers, replace_file
from auditkit.store.folder.found_files import files_named, files_of, second_files
from auditkit.store.folder.locks import DEFAULT_TIMEOUT_S, locked
from auditkit.store.folder.walk import stamp_of
from auditkit.store.listing.index import read_columns
from auditkit.store.listing.rows import FINGERPRINTS, ID, PATH, broken_of
from auditkit.store.listing.ticket_rows import row_of
from auditkit.store.markdown.document import BrokenFileError, Document, broken_at
from auditkit.store.reading.reader import is_other_page, read_file, ticket_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from auditkit.store.folder.walk import Stamp


@dataclass(frozen=True)
class Entry:
    """One ticket file as it was read: the file, its document, and what it says."""

    file: Path
    document: Document
    ticket: Ticket


@dataclass(frozen=True)
class Change:
    """A ticket before and after a change; the same entry twice where nothing had to be written.

    `note` is what the user has to know of it.
    """

    before: Entry
    after: Entry
    note: str = ""

    @property
    def is_edit(self) -> bool:
        """Whether the text is another one; a file may also only have moved."""
        return self.after.document.data != self.before.document.data


@dataclass(frozen=True)
class Listing:
    """Every ticket of a folder, in the order of their ids, and every file that cannot be read as one."""

    tickets: tuple[Ticket, ...]
    broken: tuple[BrokenTicket, ...]


_Read = Entry | BrokenTicket | None


class Repository:
    """The tickets below one folder. Reading takes no lock: files change only as a whole.

    A folder that is not there holds no tickets; it is made by the first write.
    """

    def __init__(self, folder: Path, lock_timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.folder = folder
        self._lock_timeout_s = lock_timeout_s
        # What one object writes is one command to undo, in however many locked sections.
        self._session = os.urandom(8).hex()
        self._cache: dict[Path, tuple[Stamp, _Read]] = {}
        self.mended: dict[Path, Path] = {}
        """Second names of files that were taken away, each with the name that stayed."""

    def ensure_writable(self) -> None:
        """Check before any measuring that tickets can be written; raises StoreConflictError."""
        ensure_writable(self.folder)

    def listing(self) -> Listing:
        """Every ticket and every broken file; other Markdown pages are left out."""
        reads = self._reads()
        tickets = [read.ticket for read in reads if isinstance(read, Entry)]
        broken = [read for read in reads if isinstance(read, BrokenTicket)]
        return Listing(
            tuple(sorted(tickets, key=lambda ticket: (*id_parts(ticket.id), ticket.path.as_posix()))),
            tuple(broken),
        )

    def find(self, text: str) -> Entry:
        """The ticket with the id `text`: by file name first, else by its metadata.

        Raises BadInputError when there is none (naming the nearest ids) or its file is broken, and
        StoreConflictError when several files have that id.
        """
        if not is_ticket_id(text):
            raise BadInputError(f"not a ticket id: '{inert_line(text)}'", self._nearest(text))
        ticket_id = parse_ticket_id(text)
        found = self._read_all(files_named(self.folder, ticket_id))
        if not found:
            found = self._read_all(file for file, says in self.known(ID) if says == ticket_id)
        if not found:
            raise BadInputError(f"no ticket {ticket_id} in {self.folder}", self._nearest(ticket_id))
        if len(found) > 1:
            files = ", ".join(str(self._path_of(read)) for read in found)
            raise StoreConflictError(f"{ticket_id} is in several files: {files}", "renumber all but one")
        if isinstance(found[0], BrokenTicket):
            broken = found[0]
            is_merge = "merge conflict" in broken.message
            driver = "; `auditkit ticket merge --install` lets git merge what two people write" if is_merge else ""
            raise BadInputError(broken.describe(self._path_of(broken)), f"mend the file by hand{driver}")
        return found[0]

    def find_fingerprint(self, fingerprint: str) -> Entry | None:
        """The ticket whose evidence block has `fingerprint`: an unfinished one first, then by id.

        Raises BadInputError when a file that cannot be read mentions it, because filing the finding
        again would make a second ticket of it.
        """
        rows, unread, _ = self._overview(FINGERPRINTS)
        held = self._read_all(self.folder / path for path, fingerprints in rows if fingerprint in fingerprints)
        entries = [read for read in held if isinstance(read, Entry)]
        if entries:
            return min(entries, key=_finished_last)
        for broken in unread:
            if self._mentions(broken, fingerprint):
                raise BadInputError(
                    f"the ticket of {fingerprint} cannot be read:\n{broken.describe(self._path_of(broken))}",
                    "mend the file by hand, then run the audit again",
                )
        return None

    def next_id(self, batch: int, agent: str) -> TicketId:
        """The id after the highest one of `batch` and `agent` here and on other local branches.

        Only under the lock (`writing`) does it stay free until it is used; who asks before, too, holds the lock for
        milliseconds only. Raises BadInputError where a folder cannot be listed: the id may be taken there.
        """
        rows, _, paths = self._overview(ID)
        hidden = next((path for path in paths if path[-3:].lower() != ".md"), None)
        if hidden is not None:
            raise BadInputError(
                f"cannot read the tickets folder {self.folder / hidden}", "its tickets have ids that are not free"
            )
        used = _ids(rows, paths) | self._branch_ids
        numbers = [number for b, a, number in map(id_parts, used) if (b, a) == (batch, agent)]
        return format_ticket_id(batch, agent, max(numbers, default=0) + 1)

    def path_of_new(self, ticket_id: TicketId) -> PurePath:
        """Where a new ticket goes, relative to the folder: `batch7/B7-PT-01.md`."""
        return PurePath(f"batch{id_parts(ticket_id)[0]}") / f"{ticket_id}.md"

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder's lock over a whole read, change and write, and keep what is written there for `undo`.

        It is not re-entrant. A move that was killed between its two steps is finished first. Raises
        StoreConflictError when the lock cannot be had.
        """
        from auditkit.store.folder.journal import recorded  # whoever only reads does without it

        # Looked for before the lock, so that nobody waits for it.
        has_second_names = files.plan is None and bool(second_files(self.folder))
        with locked(self.folder, self._lock_timeout_s):
            if has_second_names:
                for second, own in second_files(self.folder).items():
                    remove_file(second)
                    self.mended[second] = own
            with recorded(self.folder, self._session):
                yield

    def create(self, ticket_id: TicketId, data: bytes) -> Entry:
        """Write a new ticket; only under `writing`.

        Raises StoreConflictError when it exists, cannot be written or would lie behind a link, where nothing
        is listed, and BrokenFileError when `data` is not the ticket `ticket_id` (a fault of the caller, so
        nothing is written).
        """
        path = self.path_of_new(ticket_id)
        document = Document.parse(data, path)
        ticket = ticket_of(document)
        if ticket.id != ticket_id:
            raise BrokenFileError(broken_at(data, path, 0, f"says {ticket.id}, should say {ticket_id}"))
        file = self.folder / path
        if file.parent.is_symlink():
            raise StoreConflictError(
                f"{file.parent} is a link; tickets behind it are not listed", "make it a folder of its own"
            )
        remove_leftovers(file.parent)
        create_file(file, data)
        return Entry(file, document, ticket)

    def save(self, entry: Entry, changed: Document) -> Entry:
        """Write `changed` over `entry`; only under `writing`. Writes nothing when no byte differs.

        Raises StoreConflictError when the file is no longer as it was read, or cannot be written.
        """
        ticket = ticket_of(changed)
        if changed.data != entry.document.data:
            remove_leftovers(entry.file.parent)
            replace_file(entry.file, changed.data, entry.document.data)
        return Entry(entry.file, changed, ticket)

    def change(self, text: str, edit: Callable[[Entry], Document]) -> Change:
        """Read the ticket `text`, edit it and write it, all under one lock.

        `edit` gets the entry and returns its document, changed or as it was. Raises what `edit`, `find` and
        `save` raise; nothing is written then.
        """
        with self.writing():
            entry = self.find(text)
            return Change(entry, self.save(entry, edit(entry)))

    def known(self, field: int) -> list[tuple[Path, Any]]:
        """Every ticket's file with one field of its row (`listing.rows`), most of them from the index."""
        return [(self.folder / row[0], row[1]) for row in self._overview(field)[0]]

    def used_ids(self) -> frozenset[TicketId]:
        """Ids that a file is named by, whatever it holds, and ids that a ticket says it has."""
        rows, _, paths = self._overview(ID)
        return _ids(rows, paths)

    def _overview(self, *fields: int) -> tuple[list[tuple[Any, ...]], list[BrokenTicket], Collection[str]]:
        """The path and fields of every ticket's row, the broken files, and the paths of all files."""
        if files.plan is None or not files.plan.after:
            rows, broken, found = read_columns(str(self.folder), *fields)
            return rows, list(map(broken_of, broken)), found.keys()
        # In a dry run the files are not what they would be.
        reads = self._reads()
        every = [row_of(read.ticket, read.document) for read in reads if isinstance(read, Entry)]
        rows = [(row[PATH], *(row[field] for field in fields)) for row in every]
        unread = [read for read in reads if isinstance(read, BrokenTicket)]
        return rows, unread, [file.relative_to(self.folder).as_posix() for file in self.files()]

    def _read_all(self, found: Iterable[Path]) -> list[Entry | BrokenTicket]:
        return [read for file in found if (read := self.read(file)) is not None]

    def _reads(self) -> list[Entry | BrokenTicket]:
        return self._read_all(self.files())

    def _mentions(self, broken: BrokenTicket, fingerprint: str) -> bool:
        file = self._path_of(broken)
        return file.is_file() and fingerprint.encode() in file.read_bytes()

    def files(self) -> list[Path]:
        """Every Markdown file below the folder, as `files_of` finds them."""
        return files_of(self.folder)

    def read(self, file: Path) -> _Read:
        """The file as a ticket, as a broken one, or None for another page; read again when it changed."""
        path = file.relative_to(self.folder)
        if (planned := files.read_planned(file)) is not None:
            document = Document.parse(planned, path)
            return None if is_other_page(document) else Entry(file, document, ticket_of(document))
        try:
            stamp = stamp_of(file.stat())
        except OSError:
            stamp = None
        known = self._cache.get(file)
        if known is not None and known[0] == stamp:
            return known[1]
        found = read_file(str(file), path)
        read = Entry(file, *found) if isinstance(found, tuple) else found
        if stamp is not None:
            self._cache[file] = (stamp, read)
        return read

    @cached_property
    def _branch_ids(self) -> frozenset[TicketId]:
        existing = self.folder.absolute()
        while not existing.is_dir():
            existing = existing.parent
        return ids_on_branches(existing)

    def _nearest(self, text: str) -> str:
        near = nearest_names(text.upper(), sorted(self.used_ids()))
        return f"did you mean {', '.join(near)}?" if near else "auditkit ticket list shows what there is"

    def _path_of(self, read: Entry | BrokenTicket) -> Path:
        return read.file if isinstance(read, Entry) else self.folder / read.path


def _ids(rows: Iterable[tuple[Any, ...]], paths: Iterable[str]) -> frozenset[TicketId]:
    stems = (path.rpartition("/")[2][:-3] for path in paths)
    return frozenset({parse_ticket_id(stem) for stem in stems if is_ticket_id(stem)} | {row[1] for row in rows})


def _finished_last(entry: Entry) -> tuple[bool, int, str, int, str]:
    return (entry.ticket.is_finished, *id_parts(entry.ticket.id), entry.ticket.path.as_posix())
