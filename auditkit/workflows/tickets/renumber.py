"""Another id for a ticket: its file, its rows, and every place in the folder that names it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from auditkit.errors import AuditkitError, BadInputError
from auditkit.model.codec import Record
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import TicketId, agent_name, id_parts, is_ticket_id, parse_ticket_id
from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.store.edits.cells import set_cell
from auditkit.store.folder.branches import ids_on_branches
from auditkit.store.folder.files import move_file, remove_file, replace_file
from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from auditkit.workflows.configuration import tickets_configuration


@dataclass(frozen=True)
class Renumbered(Record, keys="old id=new path references shared=is_shared"):
    """What was done: the new file, and the other files in which the old id was replaced.

    `is_shared` says that another file still has the old id, so that references elsewhere were left alone.
    """

    schema_version: ClassVar[int] = 1

    old: TicketId
    new: TicketId
    path: Path
    references: tuple[Path, ...]
    is_shared: bool


@dataclass(frozen=True)
class _Job:
    """From which id to which, and the ticket's text as it is to be."""

    old: TicketId
    new: TicketId
    data: bytes


def renumber(repository: Repository, old: str, new: str | None = None) -> Renumbered:
    """Give the ticket `old` (an id, or a file where several have that id) the id `new`, else the next free one.

    Everything happens under one lock, and is undone where a file cannot be written. What a killed renumbering
    left half done, the same call finishes. Raises BadInputError where `new` is taken, here or on another local
    branch.
    """
    with repository.writing():
        entry = _named(repository, old)
        job = _unfinished(repository, entry, new) or _begun(repository, entry, new)
        shared = any(other.ticket.id == job.old for other in _others(repository, entry))
        target = _new_path(entry.file, job)
        references = [] if shared else list(_references(repository, entry, job))
        _write(entry, target, job, references)
    return Renumbered(job.old, job.new, target, tuple(file for file, _, _ in references), shared)


def _begun(repository: Repository, entry: Entry, new: str | None) -> _Job:
    wanted = _free_id(repository, entry.ticket.id, new)
    return _Job(entry.ticket.id, wanted, _with_id(entry, wanted, tickets_configuration(repository).agents).data)


def _unfinished(repository: Repository, entry: Entry, new: str | None) -> _Job | None:
    """What is left of a killed renumbering: a ticket that has its new id already, in a file named by the old one."""
    named, says = entry.file.stem, entry.ticket.id
    if not is_ticket_id(named) or parse_ticket_id(named) == says:
        return None
    if new is not None and new.strip().upper() != says:
        return None
    if any(other.ticket.id == says for other in _others(repository, entry)):
        return None
    return _Job(parse_ticket_id(named), says, entry.document.data)


def _others(repository: Repository, entry: Entry) -> Iterator[Entry]:
    """The tickets in other files; a second name of this file is none."""
    for file in repository.files():
        if file != entry.file and isinstance(read := repository.read(file), Entry) and not file.samefile(entry.file):
            yield read


def _named(repository: Repository, text: str) -> Entry:
    """The ticket by its id, or by its file as the user or the folder names it."""
    if is_ticket_id(text):
        return repository.find(text)
    for file in (Path(text), repository.folder / text):
        if file.is_file():
            known = next((one for one in repository.files() if one.samefile(file)), None)
            read = repository.read(known) if known else None
            if isinstance(read, BrokenTicket):
                raise BadInputError(read.describe(file), "mend the file by hand")
            if read is None:
                raise BadInputError(f"{file} is no ticket of {repository.folder}", "name an id, or a ticket's file")
            return read
    return repository.find(text)


def _free_id(repository: Repository, old: TicketId, new: str | None) -> TicketId:
    batch, agent, _ = id_parts(old)
    if new is None:
        return repository.next_id(batch, agent)
    if not is_ticket_id(new):
        raise BadInputError(
            f"not a ticket id: '{inert_line(new)}'", f"the next free one: {repository.next_id(batch, agent)}"
        )
    wanted = parse_ticket_id(new)
    here = {file.stem.upper() for file in repository.files()}
    here |= {read.ticket.id for file in repository.files() if isinstance(read := repository.read(file), Entry)}
    where = "here" if wanted in here else "on a local branch" if wanted in ids_on_branches(repository.folder) else ""
    if where:
        hint = f"the next free one: {repository.next_id(*id_parts(wanted)[:2])}"
        raise BadInputError(f"{wanted} is taken {where}", hint)
    return wanted


def _with_id(entry: Entry, new: TicketId, agents: Mapping[str, str]) -> Document:
    """The ticket with the new id wherever its text names the old one, and the rows that follow from it."""
    old = entry.ticket.id
    document = Document.parse(_mention(old).sub(new.encode(), entry.document.data), entry.document.path)
    (old_batch, old_code, _), (batch, code, _) = id_parts(old), id_parts(new)
    values = {"ticket id": str(new)}
    if batch != old_batch:
        values["batch"] = str(batch)
    if code != old_code:
        values["agent"] = agent_name(code, agents)
    for label, value in values.items():
        section, row = document.section("Ticket Metadata"), document.field(label)
        if section is not None and row is not None and row.text != value:
            document = set_cell(document, section, row, value)
    if ticket_of(document).id != new:
        raise BadInputError(
            f"{entry.file}: its Ticket ID row is missing", f"add it by hand: | **Ticket ID** | `{old}` |"
        )
    return document


def _new_path(file: Path, job: _Job) -> Path:
    """Beside the old file; a ticket in a batch's folder goes to the folder of its batch."""
    if file.parent.name == f"batch{id_parts(job.old)[0]}":
        return file.parent.with_name(f"batch{id_parts(job.new)[0]}") / f"{job.new}.md"
    return file.parent / f"{job.new}.md"


def _references(repository: Repository, entry: Entry, job: _Job) -> Iterator[tuple[Path, bytes, bytes]]:
    """Every other Markdown file that names the old id, reports and broken tickets too: file, before, after."""
    mention = _mention(job.old)
    for file in repository.files():
        if file != entry.file and file.is_file() and not file.is_symlink():
            data = file.read_bytes()
            changed = mention.sub(job.new.encode(), data)
            if changed != data:
                yield file, data, changed


def _write(entry: Entry, target: Path, job: _Job, references: Sequence[tuple[Path, bytes, bytes]]) -> None:
    """The ticket's text first and its file's name last.

    In between the file has the old name and the new id: the new id is taken, and `_unfinished` knows the job.
    """
    with contextlib.ExitStack() as undo:
        file = _named_by_id(entry.file, job.old, undo)
        own = [(file, entry.document.data, job.data)] if job.data != entry.document.data else []
        for path, before, after in [*own, *references]:
            replace_file(path, after, before)
            undo.callback(_put_back, path, after, before)
        if target.exists() and target.samefile(file):
            remove_file(file)
        else:
            move_file(file, target)
        undo.pop_all()


def _named_by_id(file: Path, ticket_id: TicketId, undo: contextlib.ExitStack) -> Path:
    """The ticket's file, named by its id where it was not and nothing else is, so that the id finds it."""
    named = file.with_name(f"{ticket_id}.md")
    if file.stem.upper() == ticket_id or named.exists():
        return file
    move_file(file, named)
    undo.callback(move_file, named, file)
    return named


def _put_back(path: Path, after: bytes, before: bytes) -> None:
    # What was changed by somebody else meanwhile stays theirs.
    with contextlib.suppress(AuditkitError):
        replace_file(path, before, after)


def _mention(ticket_id: TicketId) -> re.Pattern[bytes]:
    """The id as a whole word: `B7-PT-01` is not in `B7-PT-011` and not in `AB7-PT-01`."""
    return re.compile(rb"(?<![\w-])" + re.escape(ticket_id.encode()) + rb"(?![\w-])")
