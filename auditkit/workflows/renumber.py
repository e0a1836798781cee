"""Another id for a ticket: its file, its rows, and every place in the folder that names it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import AuditkitError, BadInputError
from auditkit.model.ids import TicketId, agent_name, id_parts, is_ticket_id, parse_ticket_id
from auditkit.model.text import inert_line
from auditkit.model.ticket import BrokenTicket
from auditkit.store.branches import ids_on_branches
from auditkit.store.document import Document
from auditkit.store.edits.cells import set_cell
from auditkit.store.files import create_file, replace_file
from auditkit.store.reader import ticket_of
from auditkit.store.repository import Entry, Repository
from auditkit.workflows.agents import configured_agents


@dataclass(frozen=True)
class Renumbered:
    """What was done: the new file, and the other files in which the old id was replaced.

    `is_shared` says that another file still has the old id, so that references elsewhere were left alone.
    """

    old: TicketId
    new: TicketId
    path: Path
    references: tuple[Path, ...]
    is_shared: bool


def renumber(repository: Repository, old: str, new: str | None = None) -> Renumbered:
    """Give the ticket `old` (an id, or a file where several have that id) the id `new`, else the next free one.

    Everything happens under one lock, and is undone where a file cannot be written. Raises BadInputError
    where `new` is taken, here or on another local branch.
    """
    with repository.writing():
        entry = _named(repository, old)
        wanted = _free_id(repository, entry.ticket.id, new)
        shared = any(
            read.ticket.id == entry.ticket.id
            for file in repository.files()
            if file != entry.file and isinstance(read := repository.read(file), Entry)
        )
        changed = _with_id(entry, wanted, configured_agents(repository))
        target = _new_path(entry, wanted)
        others = [] if shared else list(_references(repository, entry, wanted))
        _write(entry, target, changed.data, others)
    return Renumbered(entry.ticket.id, wanted, target, tuple(file for file, _, _ in others), shared)


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


def _new_path(entry: Entry, new: TicketId) -> Path:
    """Beside the old file; a ticket in a batch's folder goes to the folder of its batch."""
    if entry.file.parent.name == f"batch{id_parts(entry.ticket.id)[0]}":
        return entry.file.parent.with_name(f"batch{id_parts(new)[0]}") / f"{new}.md"
    return entry.file.parent / f"{new}.md"


def _references(repository: Repository, entry: Entry, new: TicketId) -> Iterator[tuple[Path, bytes, bytes]]:
    """Every other Markdown file that names the old id, reports and broken tickets too: file, before, after."""
    mention = _mention(entry.ticket.id)
    for file in repository.files():
        if file != entry.file and file.is_file() and not file.is_symlink():
            data = file.read_bytes()
            changed = mention.sub(new.encode(), data)
            if changed != data:
                yield file, data, changed


def _write(entry: Entry, target: Path, data: bytes, others: list[tuple[Path, bytes, bytes]]) -> None:
    """The new file first and the old one's removal last, so that nothing is lost where one of them fails."""
    create_file(target, data)
    done: list[tuple[Path, bytes, bytes]] = []
    try:
        for file, before, after in others:
            replace_file(file, after, before)
            done.append((file, before, after))
        entry.file.unlink()
    except BaseException as error:
        for file, before, after in reversed(done):
            with contextlib.suppress(AuditkitError):
                replace_file(file, before, after)
        target.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise BadInputError(f"cannot remove {entry.file}: {error.strerror}; nothing was changed") from error
        raise


def _mention(ticket_id: TicketId) -> re.Pattern[bytes]:
    """The id as a whole word: `B7-PT-01` is not in `B7-PT-011` and not in `AB7-PT-01`."""
    return re.compile(rb"(?<![\w-])" + re.escape(ticket_id.encode()) + rb"(?![\w-])")
