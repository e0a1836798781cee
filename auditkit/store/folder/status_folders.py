"""Move a ticket's file to the folder for its status, as PROCESS pages ask people to do by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from auditkit.errors import AuditkitError, StoreConflictError
from auditkit.model.tickets.ticket import Ticket
from auditkit.rules.lint.rule import FOLDERS
from auditkit.rules.tickets.lifecycle import home_of
from auditkit.store.config.config import Config
from auditkit.store.folder.files import is_there, move_file
from auditkit.store.folder.folder_names import folders_named_by_status
from auditkit.store.folder.repository import Change, Entry, Repository

Folders = Mapping[str, Sequence[str]]


def folders_of(config: Config, tickets: Path | None = None) -> Folders:
    """The folders for finished tickets: those under `lint: folders`, else fixed/, closed/ and what `tickets` has."""
    configured: Folders | None = config.lint.settings.get("folders")
    if configured is not None:
        return configured
    return {**FOLDERS, **folders_named_by_status(tickets)} if tickets is not None else FOLDERS


def place_of(entry: Entry, ticket: Ticket, folders: Folders) -> Path:
    """Where the entry's file belongs when it says `ticket`.

    Raises StoreConflictError where another file of that name is there already.
    """
    home = home_of(ticket, folders)
    new = entry.file if home is None else entry.file.parent.parent / home / entry.file.name
    if new != entry.file and is_there(new):
        raise StoreConflictError(
            f"{new} exists already, so {entry.file} cannot go there; nothing was written", "rename one of the two"
        )
    return new


def put_in_place(repository: Repository, entry: Entry, folders: Folders) -> Entry:
    """The ticket, after its file was moved where its status calls for another folder; only under `writing`.

    A folder inside the tickets folder keeps its place: `a/batch7/X.md` goes to `a/fixed/X.md`. Raises
    StoreConflictError where a file of that name is there already.
    """
    new = place_of(entry, entry.ticket, folders)
    if new == entry.file:
        return entry
    move_file(entry.file, new)
    path = PurePath(new.relative_to(repository.folder))
    return Entry(new, replace(entry.document, path=path), replace(entry.ticket, path=path))


def placed(repository: Repository, change: Change, folders: Folders) -> Change:
    """The change with its ticket in place; one that had the status already was perhaps killed before it was moved.

    What is written is done: a file that cannot be moved stays where it is, and `Change.note` says so.
    """
    try:
        if place_of(change.after, change.after.ticket, folders) == change.after.file:
            return change
        with repository.writing():
            return Change(change.before, put_in_place(repository, repository.find(change.after.ticket.id), folders))
    except AuditkitError as error:
        return replace(change, note=f"the status is written, but the file stays in its folder: {error.message}")
