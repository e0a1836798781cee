"""Tickets from elsewhere: checked where they lie, or copied byte by byte into the tickets folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError, StoreConflictError
from auditkit.model.codec import Record
from auditkit.model.tickets.ids import TicketId
from auditkit.model.tickets.ticket import BrokenTicket, Ticket
from auditkit.store.folder.files import create_files, read_bytes
from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.listing.rows import ID

MOST_BYTES = 10 * 1024**2


@dataclass(frozen=True)
class Imported(Record):
    """What lies in a folder and what was done: `copied` are (from, to), `skipped` ids that were there already.

    `pages` are Markdown files that are no tickets; they are not copied.
    """

    folder: Path
    tickets: tuple[Ticket, ...]
    broken: tuple[BrokenTicket, ...]
    pages: tuple[Path, ...]
    copied: tuple[tuple[Path, Path], ...] = ()
    skipped: tuple[TicketId, ...] = ()

    def to_json(self) -> dict[str, Any]:
        tickets = [{"id": ticket.id, "path": ticket.path.as_posix()} for ticket in self.tickets]
        copied = [{"from": str(source), "to": str(target)} for source, target in self.copied]
        return super().to_json() | {"tickets": tickets, "copied": copied}


def check_folder(folder: Path) -> Imported:
    """Read every Markdown file below `folder` as a ticket; writes nothing. Raises BadInputError where there is none."""
    return _read(folder)[0]


def copy_folder(
    folder: Path, repository: Repository, skip_existing: bool = False, skip_broken: bool = False
) -> Imported:
    """Copy the tickets below `folder` as they are into the tickets folder: all of them, or none.

    One whose copy is there is skipped, so that what was cut off goes on. Raises BadInputError for broken tickets,
    links out of the folder and files above ten MiB, unless `skip_broken`, and for ids that two files have;
    StoreConflictError for ids that other files have, unless `skip_existing`.
    """
    found, entries = _read(folder)
    inside = repository.folder.resolve()
    if inside == folder.resolve() or inside.is_relative_to(folder.resolve()):
        raise BadInputError(f"{folder} holds the tickets folder itself", "--in-place checks it")
    if found.broken and not skip_broken:
        raise BadInputError(
            f"{len(found.broken)} files are broken; nothing was copied",
            f"auditkit ticket import {folder} --in-place shows them, --skip-broken copies the others",
        )
    _refuse_twice(entries)
    repository.used_ids()  # read before the lock, so that others do not wait for it
    with repository.writing():
        there = {ticket_id: file for file, ticket_id in repository.known(ID)}
        existing = [entry.ticket.id for entry in entries if entry.ticket.id in there]
        others = [
            entry.ticket.id
            for entry in entries
            if (file := there.get(entry.ticket.id)) is not None and not _is_copy(file, entry, folder, repository)
        ]
        if others and not skip_existing:
            named = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
            raise StoreConflictError(f"{named} exist already; nothing was copied", "--skip-existing copies the others")
        wanted = [entry for entry in entries if entry.ticket.id not in there]
        copied = [(entry.file, repository.folder / entry.file.relative_to(folder)) for entry in wanted]
        create_files({to: entry.document.data for entry, (_, to) in zip(wanted, copied, strict=True)})
    return Imported(found.folder, found.tickets, found.broken, found.pages, tuple(copied), tuple(existing))


def _is_copy(file: Path, entry: Entry, folder: Path, repository: Repository) -> bool:
    """Whether the file is what copying the entry would make."""
    is_place = file == repository.folder / entry.file.relative_to(folder)
    return is_place and read_bytes(file) == entry.document.data


def _read(folder: Path) -> tuple[Imported, list[Entry]]:
    if not folder.is_dir():
        raise BadInputError(f"{folder} is no folder" if folder.exists() else f"no such folder: {folder}")
    reader = Repository(folder)
    files = reader.files()
    if not files:
        raise BadInputError(f"no Markdown file (*.md) in {folder}", "a ticket is a file B7-PT-01.md")
    entries: list[Entry] = []
    broken: list[BrokenTicket] = []
    pages: list[Path] = []
    for file in files:
        problem = _problem(folder, file)
        read = BrokenTicket(file.relative_to(folder), 1, 1, problem) if problem else reader.read(file)
        if isinstance(read, Entry):
            entries.append(read)
        elif isinstance(read, BrokenTicket):
            broken.append(read)
        else:
            pages.append(file)
    return Imported(folder, tuple(entry.ticket for entry in entries), tuple(broken), tuple(pages)), entries


def _problem(folder: Path, file: Path) -> str:
    """Why a file is not even read: it leads out of the folder, or is too long to be a ticket."""
    try:
        if file.is_symlink() and not file.resolve(strict=True).is_relative_to(folder.resolve()):
            return "a link that leads out of the folder"
        size = file.stat().st_size
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return f"{size / 1024**2:.1f} MiB are too much for a ticket" if size > MOST_BYTES else ""


def _refuse_twice(entries: list[Entry]) -> None:
    first: dict[TicketId, Path] = {}
    for entry in entries:
        other = first.setdefault(entry.ticket.id, entry.file)
        if other != entry.file:
            hint = f"auditkit ticket renumber {entry.file} --tickets FOLDER gives one of them another id"
            raise BadInputError(f"{entry.ticket.id} is in {other} and in {entry.file}; nothing was copied", hint)
