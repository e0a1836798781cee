"""Who changed what in a ticket, from git: over moves between folders and another id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import ClassVar

from auditkit.errors import BadInputError
from auditkit.model.codec import Record
from auditkit.model.tickets.ids import TicketId, is_ticket_id
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts import git
from auditkit.rules.tickets.ticket_changes import ticket_changes
from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.document import BrokenFileError
from auditkit.store.reading.reader import read_ticket

# Of each commit: hash, first parent, date, author, then a path in each line.
_FORMAT = "%x01%H%x00%P%x00%aI%x00%an"
_ANY_RENAME = "--find-renames=40%"


@dataclass(frozen=True)
class LogEntry(Record):
    """What one commit, or "" for what is not committed, did to a ticket; `date` is ISO, with the time."""

    commit: str
    date: str
    author: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class TicketLog(Record):
    """The history of a ticket, the oldest first."""

    schema_version: ClassVar[int] = 1

    id: TicketId
    path: Path
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True)
class _Step:
    """A commit and the ticket's place in it and before it, "" where it was not there."""

    commit: str
    parent: str
    date: str
    author: str
    before: str
    after: str


def ticket_log(repository: Repository, ticket_id: str) -> TicketLog:
    """What each commit changed in the ticket, and what is not committed yet.

    Raises BadInputError where the folder is in no git repository, and as `Repository.find` does.
    """
    entry = repository.find(ticket_id)
    found = git.find_repository(repository.folder)
    if found is None or not found.has_work_tree:
        raise BadInputError(f"{repository.folder} is in no git repository, so nobody knows who changed what")
    steps = list(_steps(found, entry.file.name, f":(glob)**/{entry.file.name}"))
    texts = _texts(found, steps)
    entries = [_entry(found, step, texts) for step in steps]
    last = texts.get((steps[-1].commit, steps[-1].after)) if steps else None
    at = _path(found, steps[-1].after) if steps else entry.ticket.path
    changes = _changes(last, at, entry.document.data, entry.ticket.path)
    if changes:
        entries.append(LogEntry("", "", "", changes))
    return TicketLog(entry.ticket.id, entry.file, tuple(one for one in entries if one.changes))


def _steps(found: git.Repository, name: str, where: str, until: str = "HEAD") -> Iterator[_Step]:
    """Every commit that touched a file of that name, the oldest first; before it had another name, too."""
    steps = list(_listed(found, until, where, name))
    if steps and not steps[0].before and steps[0].parent:
        older = PurePath(_renamed_from(found, steps[0]))
        if older.name:
            tickets = f"{older.parent.parent}/" if older.parent.parent.name else ""
            yield from _steps(found, older.name, f":(top,glob){tickets}**/{older.name}", steps[0].parent)
            steps[0] = replace(steps[0], before=str(older))
    yield from steps


def _listed(found: git.Repository, until: str, where: str, name: str) -> Iterator[_Step]:
    words = ("log", "--topo-order", "--reverse", "--no-renames", "--diff-merges=combined", "--name-status", "-z")
    told = git.run_git(found.directory, *words, f"--format={_FORMAT}", until, "--", where)
    for part in told.stdout.split("\x01")[1:]:
        commit, parents, date, author, *rest = part.split("\x00")
        rest = [word.strip("\n") for word in rest]
        pairs = [
            (status, path) for status, path in zip(rest[::2], rest[1::2], strict=False) if PurePath(path).name == name
        ]
        before = next((path for status, path in pairs if status[0] in "DM"), "")
        after = next((path for status, path in pairs if status[-1] in "AM"), "")
        if before or after:
            yield _Step(commit, (parents.split() or [""])[0], date, author, before, after)


def _renamed_from(found: git.Repository, step: _Step) -> str:
    """The file that became this one in a commit that gave it another name: a ticket with another id."""
    words = ("diff-tree", "-r", "-z", "--name-status", _ANY_RENAME, step.parent, step.commit)
    rest = git.run_git(found.directory, *words).stdout.split("\x00")
    for status, old, new in zip(rest, rest[1:], rest[2:], strict=False):
        if status.startswith("R") and new == step.after and is_ticket_id(PurePath(old).stem):
            return old
    return ""


def _texts(found: git.Repository, steps: Iterable[_Step]) -> Mapping[tuple[str, str], bytes]:
    """What git holds of each step, by commit and path."""
    wanted = dict.fromkeys(
        [(step.parent, step.before) for step in steps if step.before]
        + [(step.commit, step.after) for step in steps if step.after]
    )
    held = git.read_objects(found.directory, (f"{commit}:{path}" for commit, path in wanted))
    return {(commit, path): held[name] for commit, path in wanted if (name := f"{commit}:{path}") in held}


def _entry(found: git.Repository, step: _Step, texts: Mapping[tuple[str, str], bytes]) -> LogEntry:
    before, after = texts.get((step.parent, step.before)), texts.get((step.commit, step.after))
    changes = _changes(before, _path(found, step.before), after, _path(found, step.after))
    return LogEntry(step.commit, step.date, step.author, changes)


def _path(found: git.Repository, path: str) -> PurePath:
    """The path from the tickets folder."""
    return PurePath(path.removeprefix(f"{found.prefix}/") if found.prefix else path)


def _changes(before: bytes | None, old: PurePath, after: bytes | None, new: PurePath) -> tuple[str, ...]:
    if before == after and old == new:
        return ()
    if after is None:
        return ("removed",)
    was, now = _read(before, old), _read(after, new)
    if before is None:
        return (f"created: {now.severity_written}, {now.status_written}" if now else "created",)
    if was is None or now is None:
        return ("cannot be read as a ticket" if now is None else "can be read as a ticket again",)
    return tuple(ticket_changes(was, now)) or (("text",) if before != after else ())


def _read(data: bytes | None, path: PurePath) -> Ticket | None:
    try:
        return read_ticket(data, path) if data is not None else None
    except BrokenFileError:
        return None
