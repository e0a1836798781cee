"""Changes of several tickets that belong together: all of them are written, or none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from auditkit.errors import AuditkitError
from auditkit.store.document import Document
from auditkit.store.repository import Change, Entry, Repository


def change_all(repository: Repository, ids: Iterable[str], edit: Callable[[Entry], Document]) -> list[Change]:
    """Read the tickets, edit each and write them, under one lock; in the order of `ids`.

    Nothing is written unless every edit succeeded. Where a write fails, those before it are undone.
    Raises what `edit`, `Repository.find` and `Repository.save` raise.
    """
    with repository.writing():
        entries = [repository.find(ticket_id) for ticket_id in ids]
        return save_all(repository, [(entry, edit(entry)) for entry in entries])


def save_all(repository: Repository, changes: Iterable[tuple[Entry, Document]]) -> list[Change]:
    """Write several changed documents; only under `writing`. Where one fails, those before it are undone."""
    done: list[Change] = []
    try:
        for entry, document in changes:
            done.append(Change(entry, repository.save(entry, document)))
    except BaseException:
        for change in reversed(done):
            # What cannot be put back was changed by somebody else meanwhile: theirs stands.
            with contextlib.suppress(AuditkitError):
                repository.save(change.after, change.before.document)
        raise
    return done
