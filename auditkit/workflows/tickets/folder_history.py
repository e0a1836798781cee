"""What became of a whole folder of tickets, from git: how many were open when, and what happened to each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts import git
from auditkit.rules.reports.ticket_history import FolderHistory, Moment, TicketEvent
from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.document import BrokenFileError, Document
from auditkit.store.reading.reader import brief_of, is_other_page

_FORMAT = "%x01%H%x00%cI"


@dataclass(frozen=True)
class _Change:
    """A path of one commit, and the blob that it has there, "" where it is gone."""

    path: str
    blob: str


def folder_history(repository: Repository) -> FolderHistory:
    """Every commit of the branch that touched the folder, the oldest first; none where it is in no git repository."""
    found = git.find_repository(repository.folder) if git.git_is_installed() else None
    if found is None:
        return FolderHistory()
    commits = list(_commits(found))
    tickets = _tickets(found, {change.blob: change.path for _, changes in commits for change in changes if change.blob})
    now: dict[str, Ticket] = {}
    moments: list[Moment] = []
    events: dict[str, list[TicketEvent]] = {}
    for date, changes in commits:
        before = {str(ticket.id): ticket for ticket in now.values()}
        for change in changes:
            now.pop(change.path, None)
            if change.blob in tickets:
                now[change.path] = tickets[change.blob]
        after = {str(ticket.id): ticket for ticket in now.values()}
        for name in before.keys() | after.keys():
            for what in _happened(before.get(name), after.get(name)):
                events.setdefault(name, []).append(TicketEvent(date, what))
        moments.append(Moment(date, sum(not one.is_finished for one in after.values()), len(after)))
    return FolderHistory(tuple(moments), {name: tuple(those) for name, those in sorted(events.items())})


def _commits(found: git.Repository) -> Iterator[tuple[str, list[_Change]]]:
    words = ("log", "--first-parent", "--diff-merges=first-parent", "--reverse", "--no-renames", "--raw", "--no-abbrev")
    told = git.run_git(found.directory, *words, "-z", f"--format={_FORMAT}", "--", ".")
    date, changes = "", list[_Change]()
    fields = iter(told.stdout.split("\x00"))
    for field in fields:
        mark = field.lstrip("\n")
        if mark.startswith("\x01"):
            if date:
                yield date, changes
            date, changes = next(fields), []
        elif mark.startswith(":"):
            # A path follows, which may hold anything but the byte that ends it.
            _, mode, _, blob, status = mark[1:].split(" ")
            path = next(fields)
            if path.endswith(".md"):
                changes.append(_Change(path, blob if status != "D" and mode.startswith("100") else ""))
    if date:
        yield date, changes


def _tickets(found: git.Repository, blobs: dict[str, str]) -> dict[str, Ticket]:
    """What git's objects say, as tickets; other pages and broken ones are left out."""
    tickets: dict[str, Ticket] = {}
    for blob, data in git.read_objects(found.directory, blobs).items():
        with contextlib.suppress(BrokenFileError):
            document = Document.parse(data, PurePath(blobs[blob]))
            if not is_other_page(document):
                tickets[blob] = brief_of(document)
    return tickets


def _happened(before: Ticket | None, after: Ticket | None) -> Iterator[str]:
    if before is None and after is not None:
        yield f"filed: {after.severity_written}, {after.status_written}"
    elif after is None:
        yield "removed"
    elif before is not None:
        pairs = (
            ("status", before.status_written, after.status_written),
            ("severity", before.severity_written, after.severity_written),
            ("assignee", before.assignee, after.assignee),
        )
        yield from (f"{name} {one or 'none'} → {other or 'none'}" for name, one, other in pairs if one != other)
