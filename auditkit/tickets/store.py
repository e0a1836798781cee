"""A folder of tickets: `ID.md` files and `evidence/ID.json`, one writer at a time."""

from __future__ import annotations

import contextlib
import gc
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from auditkit import files
from auditkit.errors import BadInputError, StoreConflictError, meant
from auditkit.model.ticket import Evidence, Ticket, format_id, id_parts, parse_id
from auditkit.tickets.document import Document, TicketFileError, parse_document
from auditkit.tickets.front_matter import Problem, read_front_matter

LOCK_FOLDER = ".auditkit"
LOCK_TIMEOUT_S = 30.0
_NAME = re.compile(r"B\d{1,4}-[A-Z][A-Z0-9]{0,15}-\d{2,6}\.md", re.ASCII)
_HEAD_BYTES = 4096
_HEAD_END = b"\n---\n"


@dataclass(frozen=True)
class Listing:
    """The heads of a folder's tickets in the order of their ids, and the files that are not valid tickets."""

    tickets: list[Ticket]
    broken: list[TicketFileError]


@dataclass
class TicketFolder:
    """Tickets in `folder`. In a dry run (auditkit.files) it reads what it would have written."""

    folder: Path
    _depth: int = 0

    def path(self, ticket_id: str) -> Path:
        return self.folder / f"{ticket_id}.md"

    def ids(self) -> list[str]:
        """The ids of the folder's files, sorted by batch, agent and number."""
        return [name[:-3] for name in self._names()]

    def _names(self) -> list[str]:
        planned = [path.name for path in self._planned() if path.parent == self.folder.absolute()]
        try:
            names = os.listdir(self.folder)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                raise BadInputError(f"{self.folder} cannot be read: {error.strerror}") from None
            if not self._planned():
                hint = f"create it with `auditkit audit --tickets {self.folder}` or name another folder with --tickets"
                raise BadInputError(f"there is no folder {self.folder}", hint) from None
            names = []
        return sorted(filter(_NAME.fullmatch, {*names, *planned}), key=lambda name: id_parts(name[:-3]))

    def _planned(self) -> dict[Path, bytes]:
        """The files of the folder that a dry run would have written."""
        return files.plan.after if files.plan is not None else {}

    def listing(self) -> Listing:
        """Read the head of every ticket, without its body."""
        tickets: list[Ticket] = []
        broken: list[TicketFileError] = []
        folder, was_enabled = f"{self.folder}/", gc.isenabled()
        gc.disable()  # ten thousand tickets have no cycles, and looking for them takes a fifth of the time
        try:
            for name in self._names():
                try:
                    tickets.append(self._head(folder + name))
                except TicketFileError as error:
                    broken.append(error)
        finally:
            if was_enabled:
                gc.enable()
        return Listing(tickets, broken)

    def _head(self, name: str) -> Ticket:
        data = self._bytes(name, _HEAD_BYTES)
        head = data[: data.find(_HEAD_END) + len(_HEAD_END)]
        if len(head) > len(_HEAD_END) and b"\r" not in head:
            try:
                ticket, _, _ = read_front_matter(head.decode())
            except UnicodeDecodeError:
                ticket = None
            if ticket is not None:
                return ticket
        path = Path(name)
        return parse_document(self._bytes(path), path).ticket

    def _bytes(self, path: str | Path, most: int = 2_000_000) -> bytes:
        if files.plan is not None and (planned := files.plan.after.get(Path(path).absolute())) is not None:
            return planned
        try:
            # A named pipe or a device must not block the reader.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return os.read(descriptor, most)
            finally:
                os.close(descriptor)
        except OSError as error:
            path = Path(path)
            if isinstance(error, FileNotFoundError) and path.suffix == ".md":
                hint = meant(path.stem, self.ids(), f"{self.folder} has no tickets", 3)
                raise BadInputError(f"there is no ticket {path.stem} in {self.folder}", hint) from None
            raise TicketFileError(path, [Problem(1, f"the file cannot be read: {error.strerror}")]) from None

    def read(self, text: str) -> Document:
        """Read the ticket with this id (`B1-PT-3` is `B1-PT-03`). Raises BadInputError."""
        try:
            ticket_id = parse_id(text)
        except ValueError as error:
            raise BadInputError(str(error), meant(text.upper(), self.ids(), most=3)) from None
        path = self.path(ticket_id)
        return parse_document(self._bytes(path), path)

    def documents(self, ids: Sequence[str] = ()) -> tuple[list[Document], list[TicketFileError]]:
        """Read the tickets with these ids (all of them without), and name the files that are not valid."""
        documents, broken = [], []
        for ticket_id in ids or self.ids():
            try:
                documents.append(self.read(ticket_id))
            except TicketFileError as error:
                broken.append(error)
        return documents, broken

    def evidence(self, ticket_id: str) -> Evidence | None:
        """Read the evidence file of a ticket, None if there is none. Raises BadInputError for an invalid file."""
        path = self.folder / "evidence" / f"{ticket_id}.json"
        if not self._is_there(path):
            return None
        try:
            return msgspec.json.decode(self._bytes(path), type=Evidence)
        except msgspec.DecodeError as error:
            hint = "restore it from git, or delete it: the next audit writes it again"
            raise BadInputError(f"{path} is not an evidence file: {error}", hint) from None

    def _is_there(self, path: Path) -> bool:
        return path.exists() or path.absolute() in self._planned()

    # Writing.

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder's lock; may be nested. Raises StoreConflictError if it cannot be had."""
        with contextlib.nullcontext() if files.is_dry_run() or self._depth else locked(self.folder):
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def change(self, ticket_id: str, edit: Callable[[Document], Document]) -> Document:
        """Read a ticket, edit it and write it under the lock, if anything changed."""
        with self.writing():
            before = self.read(ticket_id)
            after = edit(before)
            self.save(after, before)
            return after

    def save(self, after: Document, before: Document | None = None) -> None:
        """Write a document whose `before` (None: no file) is still on the disk. Raises StoreConflictError otherwise."""
        if before is not None and after.text == before.text:
            return
        with self.writing():
            now = self._bytes(after.path) if self._is_there(after.path) else None
            if now != (before.data if before is not None else None):
                raise StoreConflictError(f"{after.path} was changed by another program", "run the command again")
            files.write_below(self.folder, after.path.name, after.data)

    def save_evidence(self, evidence: Evidence) -> None:
        """Write the evidence file of a ticket, if its content changed."""
        path = self.folder / "evidence" / f"{evidence.ticket}.json"
        data = msgspec.json.format(msgspec.json.encode(evidence), indent=1) + b"\n"
        with self.writing():
            if not self._is_there(path) or self._bytes(path) != data:
                files.write_below(self.folder, f"evidence/{path.name}", data)

    def create(self, batch: int, code: str, make: Callable[[str], Document]) -> Document:
        """Write a new ticket with the next free id, which `make` receives."""
        with self.writing():
            used = self.ids() if self.folder.exists() or self._planned() else []
            numbers = [number for one, agent, number in map(id_parts, used) if (one, agent) == (batch, code)]
            document = make(format_id(batch, code, max(numbers, default=0) + 1))
            self.save(document)
            return document


@contextlib.contextmanager
def locked(folder: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock of a folder. Raises StoreConflictError if another process holds it, or if it cannot be locked."""
    from filelock import FileLock, Timeout

    place = folder / LOCK_FOLDER
    hint = "check the permissions of the tickets folder and the free space"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not (place / ".gitignore").exists():
            files.write_below(place, ".gitignore", b"*\n")
        lock = FileLock(place / "lock", timeout=timeout_s)
        lock.acquire()
    except Timeout:
        message = f"{folder} is locked by another auditkit{f' for more than {timeout_s:g} s' * (timeout_s > 0)}"
        raise StoreConflictError(message, "wait for it, or stop it: the lock ends with its process") from None
    except OSError as error:
        raise StoreConflictError(f"{folder} cannot be locked: {error.strerror}", hint) from error
    try:
        yield
    finally:
        lock.release()
