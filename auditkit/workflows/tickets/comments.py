"""A comment: what somebody says of a ticket without deciding anything."""

from __future__ import annotations

import contextlib
import datetime

from auditkit.errors import BadInputError
from auditkit.model.tickets.comment import Comment
from auditkit.rendering.markdown import prose
from auditkit.store.edits.comments import add_comment
from auditkit.store.folder.repository import Change, Repository
from auditkit.workflows.tickets.editor import edit_text, kept_where_refused
from auditkit.workflows.tickets.people import person

_PROMPT = "\n<!-- What you have to say about {id}: {title} -->\n"


def comment_on(
    repository: Repository, ticket_id: str, text: str | None, author: str | None, now: datetime.datetime
) -> Change:
    """Write a comment into the ticket; without a text what the user's editor gives.

    Raises BadInputError where nothing is said or nobody says it. A text from the editor that cannot be written is
    kept in a recovery file, which the error's hint names.
    """
    ticket = repository.find(ticket_id).ticket
    name = person(repository.folder, author, "--by")
    is_edited = text is None
    if text is None:
        prompt = _PROMPT.format(id=ticket.id, title=ticket.title.replace("--", "—"))
        text = edit_text(prompt.encode(), f"{ticket.id}-comment.md").decode("utf-8", "replace").replace(prompt[1:], "")
    said = prose(text)
    if not said.strip():
        raise BadInputError("the comment is empty; nothing was written", f'auditkit ticket comment {ticket.id} "…"')
    comment = Comment(name, now.strftime("%Y-%m-%d %H:%M"), said, 0)
    kept = kept_where_refused(repository, f"{ticket.id}-comment.md", text.encode())
    with kept if is_edited else contextlib.nullcontext():
        return repository.change(ticket.id, lambda entry: add_comment(entry.document, comment))
