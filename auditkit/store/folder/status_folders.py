"""Move a ticket's file to the folder for its status, as PROCESS pages ask people to do by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from auditkit.rules.lint.rule import FOLDERS
from auditkit.rules.tickets.lifecycle import home_of
from auditkit.store.config.config import Config
from auditkit.store.folder.files import move_file
from auditkit.store.folder.repository import Change, Entry, Repository

Folders = Mapping[str, Sequence[str]]


def folders_of(config: Config) -> Folders:
    """The folders for finished tickets: those under `lint: folders`, else fixed/ and closed/."""
    configured: Folders | None = config.lint.settings.get("folders")
    return FOLDERS if configured is None else configured


def put_in_place(repository: Repository, entry: Entry, folders: Folders) -> Entry:
    """The ticket, after its file was moved where its status calls for another folder; only under `writing`.

    A folder inside the tickets folder keeps its place: `a/batch7/X.md` goes to `a/fixed/X.md`. Raises
    StoreConflictError where a file of that name is there already.
    """
    home = home_of(entry.ticket, folders)
    if home is None:
        return entry
    new = entry.file.parent.parent / home / entry.file.name
    move_file(entry.file, new)
    path = PurePath(new.relative_to(repository.folder))
    return Entry(new, replace(entry.document, path=path), replace(entry.ticket, path=path))


def placed(repository: Repository, change: Change, folders: Folders) -> Change:
    """The change with its ticket in place, where it gave the ticket another status."""
    if change.before.ticket.status is change.after.ticket.status:
        return change
    with repository.writing():
        return Change(change.before, put_in_place(repository, repository.find(change.after.ticket.id), folders))
