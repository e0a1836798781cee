"""Another id for a ticket: its file, its rows, and every place in the folder that names it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from auditkit.errors import AuditkitError, BadInputError
from auditkit.model.codec import Record
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import TicketId, agent_name, id_parts, is_ticket_id, parse_ticket_id
from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.store.edits.cells import set_cell
from auditkit.store.folder.branches import ids_on_branches
from auditkit.store.folder.files import move_file, remove_file, replace_file
from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.folder.walk import walk
from auditkit.store.listing.rows import ID
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from auditkit.workflows.configuration import tickets_configuration

if TYPE_CHECKING:
    from auditkit.store.folder.walk import Stamps


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
    mentions = _Mentions(repository.folder)
    if is_ticket_id(old):
        # Read before the lock, so that others do not wait for it.
        mentions.of(parse_ticket_id(old))
        repository.used_ids()
    with repository.writing():
        if (done := _ended(repository, old, new)) is not None:
            return done
        entry = _named(repository, old)
        job = _unfinished(repository, entry, new) or _begun(repository, entry, new)
        shared = _is_in_others(repository, entry, job.old)
        target = _new_path(entry.file, job)
        references = [] if shared else list(_references(mentions, entry, job))
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
    if _is_in_others(repository, entry, says):
        return None
    return _Job(parse_ticket_id(named), says, entry.document.data)


def _ended(repository: Repository, old: str, new: str | None) -> Renumbered | None:
    """What was killed when the ticket's file had both names already, and was ended when the lock was taken."""
    for second, own in repository.mended.items():
        if not (is_ticket_id(second.stem) and is_ticket_id(own.stem)):
            continue
        before, says = parse_ticket_id(second.stem), parse_ticket_id(own.stem)
        is_asked = old.strip().upper() == before or Path(old) in (second, second.relative_to(repository.folder))
        if is_asked and before != says and new in (None, says):
            return Renumbered(before, says, own, (), is_shared=False)
    return None


def _is_in_others(repository: Repository, entry: Entry, ticket_id: TicketId) -> bool:
    """Whether a ticket in another file has the id."""
    return any(says == ticket_id and file != entry.file for file, says in repository.known(ID))


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
    where = (
        "here"
        if wanted in repository.used_ids()
        else "on a local branch"
        if wanted in ids_on_branches(repository.folder)
        else ""
    )
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


class _Mentions:
    """Which Markdown files below a folder name an id, reports and broken tickets too.

    Asked again, it reads only what has changed since.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._stamps: Stamps = {}
        self._found: dict[str, bytes] = {}

    def of(self, ticket_id: TicketId) -> dict[Path, bytes]:
        """Each file that names the id, and what it holds."""
        # Most files do not hold the id at all, which is found out ten times as fast without the pattern.
        mention, wanted, seen = _mention(ticket_id), ticket_id.encode(), self._stamps
        self._stamps = walk(self._folder)
        for path, stamp in self._stamps.items():
            if stamp is None or seen.get(path) == stamp:
                continue
            self._found.pop(path, None)
            with contextlib.suppress(OSError), open(f"{self._folder}/{path}", "rb", buffering=0) as file:
                data = file.readall()
                if wanted in data and mention.search(data):
                    self._found[path] = data
        return {Path(self._folder, path): data for path, data in self._found.items() if path in self._stamps}


def _references(mentions: _Mentions, entry: Entry, job: _Job) -> Iterator[tuple[Path, bytes, bytes]]:
    """Every other file that names the old id: file, before, after."""
    mention = _mention(job.old)
    for file, data in sorted(mentions.of(job.old).items()):
        if file != entry.file and not file.is_symlink():
            yield file, data, mention.sub(job.new.encode(), data)


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
