"""Two tickets that know of each other: both files are written, or none."""

from __future__ import annotations

from auditkit.errors import BadInputError
from auditkit.model.relation import RelationKind
from auditkit.rendering.markdown import line
from auditkit.store.document import Document
from auditkit.store.edits.relations import link, unlink
from auditkit.store.repository import Change, Entry, Repository, change_all


def link_tickets(
    repository: Repository, ticket_id: str, kind: RelationKind, other_id: str, note: str = "", remove: bool = False
) -> list[Change]:
    """Name each ticket in the Related Findings of the other, or take both names out.

    The other side says the inverse: what one blocks is blocked by it. Raises BadInputError for a ticket
    and itself, and as `Repository.find` does.
    """
    first, second = (repository.find(text).ticket.id for text in (ticket_id, other_id))
    if first == second:
        raise BadInputError(f"{first} cannot be linked to itself")

    def edit(entry: Entry) -> Document:
        is_first = entry.ticket.id == first
        other = second if is_first else first
        if remove:
            return unlink(entry.document, other)
        return link(entry.document, other, kind if is_first else kind.inverse, line(note))

    return change_all(repository, [first, second], edit)
