"""A reviewer's verdict on a ticket, with what it judged: the ticket's case, and the code where it was looked at."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from auditkit.errors import BadInputError
from auditkit.model.enums import Severity
from auditkit.model.tickets.review import Verdict
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts.checkout import cited_file, open_checkout
from auditkit.rendering.markdown import line, prose
from auditkit.rules.tickets.code_digest import code_digest, judged_text
from auditkit.store.edits.reviews import NewReview, set_review
from auditkit.store.folder.repository import Change, Entry, Repository
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.evidence import ticket_digest
from auditkit.workflows.configuration import reviewer_name, tickets_configuration


@dataclass(frozen=True)
class ReviewRequest:
    """What a reviewer says; `reviewer` of None is the configuration's agent, `checkout` the code looked at."""

    verdict: Verdict
    reviewer: str | None = None
    severity: Severity | None = None
    note: str = ""
    date: datetime.date | None = None
    checkout: str | None = None
    replace: bool = False


def review_ticket(repository: Repository, ticket_id: str, request: ReviewRequest) -> Change:
    """Write the review into the ticket. Raises BadInputError where nobody is named as its reviewer, or as
    `set_review` and `Repository.change` do."""
    config = tickets_configuration(repository)
    reviewer = line(request.reviewer if request.reviewer is not None else config.agent or "")
    if not reviewer:
        raise BadInputError("who reviews it?", "--reviewer pytorch, or `agent: pytorch` in auditkit.yaml")
    ticket = repository.find(ticket_id).ticket
    code = cited_code(ticket, request.checkout) if request.checkout else ""

    def edit(entry: Entry) -> Document:
        review = NewReview(
            reviewer=reviewer_name(reviewer, config.agents),
            verdict=request.verdict,
            evaluation=prose(request.note),
            severity=request.severity,
            date=(request.date or datetime.date.today()).isoformat(),
            judged=judged_text(ticket_digest(entry.document), code),
        )
        return set_review(entry.document, review, request.replace)

    return repository.change(ticket_id, edit)


def cited_code(ticket: Ticket, checkout: str) -> str:
    """The digest of the code that the ticket cites in `checkout` (`DIR` or `DIR@REV`).

    Raises BadInputError where none of its files is there or the place cannot be found.
    """
    with open_checkout(checkout) as opened:
        files = [path for name in ticket.files if (path := cited_file(opened.path, name)) is not None]
        for file in files:
            digest = code_digest(file.read_text("utf-8", errors="replace"), ticket.function, ticket.lines)
            if digest:
                return digest
    if not files:
        raise BadInputError(f"{checkout} has none of the files that {ticket.id} cites", "see its File(s) row")
    raise BadInputError(f"{checkout}: {ticket.id} cites neither a function nor lines that are there")
