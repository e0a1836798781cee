"""A ticket as the row that lists go by: what loads all that knows tickets, so only who reads files loads this."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import PurePath

from auditkit.model.tickets.ids import agent_code, id_parts
from auditkit.model.tickets.relation import RelationKind
from auditkit.model.tickets.ticket import Ticket
from auditkit.rules.tickets.code_digest import is_stale
from auditkit.rules.tickets.consensus import consensus_of
from auditkit.store.folder.folder_names import statuses_of_folder
from auditkit.store.listing.rows import broken_row, mark_of, shown
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.evidence import ticket_digest
from auditkit.store.reading.reader import brief_of, read_file
from auditkit.store.reading.resolution import read_resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from auditkit.store.listing.rows import Row

_code_of = cache(agent_code)
_BLOCKING = (RelationKind.BLOCKS, RelationKind.BLOCKED_BY)


def read_row(folder: str, path: str) -> tuple[Row | None, Row | None]:
    """The row of a file below `folder`, or its broken row; neither for another page or none."""
    read = read_file(f"{folder}/{path}", PurePath(path), brief_of)
    if isinstance(read, tuple):
        document, ticket = read
        return row_of(ticket, document), None
    return None, broken_row(read) if read is not None else None


def row_of(ticket: Ticket, document: Document) -> Row:
    """The row of a ticket, of which what `brief_of` reads is enough.

    REVIEWS are pairs of a reviewer and a verdict ("" where it is not known), BLOCKS pairs of `blocks` or
    `blocked-by` and an id, AGREEMENT and VERDICT the consensus, ANSWER what waits for an answer, "" for nothing.
    """
    consensus = consensus_of(ticket)
    if consensus.needs_answer and ticket.resolution is None:
        # Few tickets have a question; of the others nobody needs to know how they ended.
        consensus = consensus_of(replace(ticket, resolution=read_resolution(document)))
    severity = ticket.severity.value if ticket.severity else ""
    status = ticket.status.value if ticket.status else ""
    path = ticket.path.as_posix()
    return (
        path,
        str(ticket.id),
        id_parts(ticket.id),
        ticket.title,
        severity,
        ticket.severity_written,
        status,
        ticket.status_written,
        ticket.status is not None and ticket.status.is_finished,
        ticket.batch,
        ticket.agent,
        _code_of(ticket.agent),
        ticket.domains,
        ticket.assignee,
        ticket.created,
        ticket.updated,
        ticket.files,
        ticket.summary,
        ticket.categories,
        tuple(
            (review.reviewer or review.reviewer_written, review.verdict.value if review.verdict else "")
            for review in ticket.reviews
        ),
        tuple((one.kind.value, str(one.id)) for one in ticket.related if one.kind in _BLOCKING and one.id),
        consensus.kind.value,
        consensus.verdict.value if consensus.verdict else "",
        consensus.needs_answer,
        shown(
            ticket.id,
            severity or ticket.severity_written or "-",
            status or ticket.status_written or "-",
            ticket.agent,
            mark_of(consensus.needs_answer),
            ticket.title,
        ),
        any(stale_reviews(ticket, document)),
        "" if ticket.is_finished else _folder_of_finished(path.rpartition("/")[0]),
        tuple(vote.verdict.value if vote.verdict else "" for vote in consensus.votes),
        ticket.fingerprints,
        ticket.labels,
        ticket.due,
        tuple((row.label.casefold(), row.text) for row in ticket.further),
        ticket.lines_written,
    )


@cache
def _folder_of_finished(folder: str) -> str:
    """The innermost folder of a path in which only finished tickets belong, by its name."""
    return next((name for name in reversed(folder.split("/")) if statuses_of_folder(name)), "")


def stale_reviews(ticket: Ticket, document: Document) -> list[bool]:
    """Of each review of a ticket, whether it judged other evidence than the ticket's document has now."""
    if not any(review.judged for review in ticket.reviews):
        return [False] * len(ticket.reviews)
    digest = ticket_digest(document)
    return [is_stale(review, digest) for review in ticket.reviews]
