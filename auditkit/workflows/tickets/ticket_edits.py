"""Edits of tickets that need more than the file itself: links into two tickets, and names of probes."""

from __future__ import annotations

from auditkit.errors import BadInputError
from auditkit.model.tickets.claim import parse_claim
from auditkit.model.tickets.relation import RelationKind
from auditkit.probing.hosts.catalog import probe_named
from auditkit.rendering.markdown import line
from auditkit.store.config.config import Config
from auditkit.store.edits import claims as edits
from auditkit.store.edits.boxes import parse_binding
from auditkit.store.edits.relations import link, unlink
from auditkit.store.edits.resolution import names_of_tests
from auditkit.store.folder.repository import Change, Entry, Repository
from auditkit.store.markdown.document import Document
from auditkit.workflows.configuration import catalog_of, read_configuration, tickets_configuration
from auditkit.workflows.tickets.many import change_all_at_once
from auditkit.workflows.tickets.named_tests import TestedCode


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

    return change_all_at_once(repository, [first, second], lambda one: repository.change(one, edit))


def mark_claim(
    repository: Repository, ticket_id: str, text: str, claim: str, config: Config, at: int | None = None
) -> Change:
    """Mark `text` of the ticket as a claim. Raises BadInputError for one that cannot be read, and unknown probes."""
    _check_probe(parse_claim(claim).probe, config)
    return repository.change(ticket_id, lambda entry: edits.mark(entry.document, text, claim, at))


def unmark_claim(repository: Repository, ticket_id: str, text: str, at: int | None = None) -> Change:
    """Take the claim behind `text` out. Raises BadInputError where there is none."""
    return repository.change(ticket_id, lambda entry: edits.unmark(entry.document, text, at))


def check_binding(repository: Repository, text: str) -> None:
    """Refuse to bind a box to a probe that neither we nor the tickets' configuration have. Raises BadInputError."""
    _check_probe(parse_binding(text).probe, read_configuration(None, None, repository))


def check_tests(repository: Repository, ticket_id: str, text: str) -> None:
    """Refuse to name tests that are not there; those that the ticket names stay. Raises BadInputError."""
    told = repository.find(ticket_id).ticket.resolution
    checkout = tickets_configuration(repository).checkout or repository.folder
    TestedCode.around(checkout, told.commits if told else ()).check(names_of_tests(text), told.tests if told else ())


def _check_probe(name: str, config: Config) -> None:
    if name:
        probe_named(catalog_of(config), name)
