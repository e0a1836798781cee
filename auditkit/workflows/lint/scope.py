"""Which files a lint looks at, and which tickets folder each belongs to."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.tickets.ids import is_ticket_id
from auditkit.rules.tickets.lifecycle import BATCH_FOLDER
from auditkit.store.folder.folder_names import statuses_of_folder
from auditkit.store.folder.repository import Repository


@dataclass(frozen=True)
class Scope:
    """A tickets folder, and the files of it that were asked for: None for all.

    `named` are those that were named one by one: they are tickets whatever they look like.
    """

    folder: Path
    files: frozenset[Path] | None = None
    named: frozenset[Path] = frozenset()

    def holds(self, file: Path) -> bool:
        return self.files is None or file in self.files


def find_scopes(paths: Sequence[str], tickets: Path | None, folders: Collection[str]) -> list[Scope]:
    """The scopes that `paths` (files, folders, ticket ids) mean; without any all of `tickets`.

    `folders` are names of folders for finished tickets: a path that lies in one, or in a `batchN`, belongs to
    the folder above it. Raises BadInputError for a path that is not there.
    """
    if not paths:
        return [Scope(tickets)] if tickets else []
    found: dict[Path, Scope] = {}
    for text in paths:
        path = _existing(text, tickets)
        folder = _tickets_folder(path, tickets, folders)
        path = _below(path, folder)
        found[folder] = _with(found.get(folder, Scope(folder, frozenset())), path)
    return list(found.values())


def _with(scope: Scope, path: Path) -> Scope:
    known = scope.files
    if known is None or path == scope.folder:
        return Scope(scope.folder, None, scope.named)
    if path.is_dir():
        below = frozenset(file for file in Repository(scope.folder).files() if file.is_relative_to(path))
        return Scope(scope.folder, known | below, scope.named)
    return Scope(scope.folder, known | {path}, scope.named | {path})


def _existing(text: str, tickets: Path | None) -> Path:
    """The file or folder that `text` names, as one below the tickets folder where it lies in that."""
    path = Path(os.path.normpath(text))
    if path.exists():
        return path if tickets is None else _below(path, tickets)
    if is_ticket_id(text):
        if tickets is None:
            raise BadInputError(f"no tickets folder to look for {text} in", "name the folder: --tickets DIR")
        return Repository(tickets).find(text).file
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = nearest_names(path.name, siblings)
    raise BadInputError(f"no such file or folder: {text}", f"did you mean {', '.join(near)}?" if near else None)


def _below(path: Path, folder: Path) -> Path:
    """The path as one below `folder` where it lies in it, as it is where it does not."""
    real, base = _real(path), folder.resolve()
    return folder / real.relative_to(base) if real.is_relative_to(base) else path


def _real(path: Path) -> Path:
    """Where a path is: folders with their links resolved; a file that is a link stays one."""
    return path.resolve() if path.is_dir() else path.parent.resolve() / path.name


def _tickets_folder(path: Path, tickets: Path | None, folders: Collection[str]) -> Path:
    if tickets is not None and (path == tickets or tickets in path.parents):
        return tickets
    inner = path if path.is_dir() else path.parent
    name = inner.resolve().name
    if name not in folders and not statuses_of_folder(name) and BATCH_FOLDER.fullmatch(name) is None:
        return inner
    return inner.parent if inner.name == name else inner.resolve().parent
