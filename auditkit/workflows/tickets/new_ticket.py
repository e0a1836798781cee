"""A new ticket: by hand, in the editor, or from a probe that reproduces a finding."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.enums import Severity
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import TicketId, agent_code, format_ticket_id
from auditkit.rendering.hand_ticket import Draft, read_spans, render_draft
from auditkit.store.config.config import Config, read_config
from auditkit.store.config.config_file import config_near
from auditkit.store.edits.categories import category_named
from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.markdown.document import BrokenFileError, Document
from auditkit.store.reading.reader import ticket_of
from auditkit.workflows.configuration import tickets_configuration
from auditkit.workflows.tickets.editor import edit_text, kept_where_refused

DEFAULT_TICKETS = Path("tickets")
_SKELETON = Draft("[Title]", Severity.P2, summary="[One line]", verification=["[How to see that it is fixed]"])


def repository_of(tickets: Path | None) -> Repository:
    """The folder that new tickets go to, which need not be there yet: the named, the configured, or `tickets`."""
    here = config_near() if tickets is None else None
    folder = tickets or (read_config(here).tickets if here else None) or DEFAULT_TICKETS
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder} is no folder", "name the folder: --tickets DIR")
    return Repository(folder)


def make_draft(title: str, severity: Severity, lines: str, categories: Sequence[str], **texts: Any) -> Draft:
    """A draft from what a user types: `lines` such as `10-12,40`, categories in any case.

    `texts` are the other fields of a Draft. Raises BadInputError for lines and categories that are none.
    """
    try:
        spans = read_spans(lines)
    except ValueError as error:
        raise BadInputError(str(error), "--lines 10-12,40") from None
    return Draft(title, severity, lines=spans, categories=[category_named(text) for text in categories], **texts)


def new_ticket(repository: Repository, draft: Draft, batch: int | None, agent: str | None) -> Entry:
    """Write the draft as a ticket with the next free id of the batch and agent, else the configuration's.

    Raises BadInputError for a draft without a title, or where nobody is named as its agent.
    """
    if not inert_line(draft.title):
        raise BadInputError("a ticket needs a title", '--title "..."')
    config = tickets_configuration(repository)
    number, code = _series(batch, agent, config)

    def render(ticket_id: TicketId) -> bytes:
        return render_draft(draft, ticket_id, datetime.date.today(), config.agents)

    # Once without the lock: what it reads and loads is then at hand, and nobody waits for it.
    render(repository.next_id(number, code))
    with repository.writing():
        ticket_id = repository.next_id(number, code)
        return repository.create(ticket_id, render(ticket_id))


def new_ticket_in_editor(repository: Repository, batch: int | None, agent: str | None) -> Entry | None:
    """Open an empty ticket in the user's editor and write what comes back; None where it was left as it is.

    Raises BadInputError where the text is no ticket; it is then kept in a recovery file, which the
    error's hint names.
    """
    config = tickets_configuration(repository)
    number, code = _series(batch, agent, config)
    ticket_id = repository.next_id(number, code)
    skeleton = render_draft(_SKELETON, ticket_id, datetime.date.today(), config.agents)
    text = edit_text(skeleton, f"{ticket_id}.md")
    if text == skeleton:
        return None
    with kept_where_refused(repository, f"{ticket_id}.md", text):
        _check(text, ticket_id)
        with repository.writing():
            free = repository.next_id(number, code)
            # Somebody may have taken the number while the editor was open.
            return repository.create(free, text.replace(ticket_id.encode(), free.encode()))


def _check(text: bytes, ticket_id: TicketId) -> None:
    try:
        ticket = ticket_of(Document.parse(text, Path(f"{ticket_id}.md")))
    except BrokenFileError as error:
        raise BadInputError(f"no ticket, so nothing was written:\n{error.broken.describe()}") from error
    if ticket.id != ticket_id:
        raise BadInputError(f"{ticket_id} became {ticket.id} in the editor; nothing was written")
    if ticket.title in ("", _SKELETON.title):
        raise BadInputError("the ticket still has no title; nothing was written")


def _series(batch: int | None, agent: str | None, config: Config) -> tuple[int, str]:
    """Batch and agent code of new tickets. Raises BadInputError where they make no id."""
    named = agent or config.agent
    if named is None:
        raise BadInputError("who reports it?", "--agent pytorch, codereview, drl or a code")
    number = next(one for one in (batch, config.batch, 1) if one is not None)
    code = agent_code(named, config.agents)
    try:
        format_ticket_id(number, code, 1)
    except ValueError:
        raise BadInputError(f"batch {number} and agent '{inert_line(named)}' make no ticket id", "B7-PT-01") from None
    return number, code
