"""The page of a folder of tickets: how many are open, the worst first, what reviewers say, and every text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from auditkit.reports.page import Page, Section, items, table, text
from auditkit.tickets.document import Document, TicketFileError
from auditkit.tickets.lifecycle import consensus
from auditkit.tickets.markdown import fence
from auditkit.tickets.queue import blockers, selected


def tickets_page(documents: Sequence[Document], broken: Sequence[TicketFileError], name: str) -> Page:
    """Return the page of a folder: counts, the tickets worst first, and (in HTML) each ticket's text."""
    tickets = [document.ticket for document in documents]
    unfinished, blocked = selected(tickets, all_statuses=False), blockers(tickets)
    finished = Counter(ticket.status.value for ticket in tickets if ticket.status.is_finished)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(finished.items())) or "none"
    levels = Counter(ticket.severity.value for ticket in unfinished)
    by_level = f" ({', '.join(f'{levels[level]} {level}' for level in sorted(levels))})" if levels else ""
    rows = []
    for one in unfinished:
        status = one.status.value + (f", blocked by {', '.join(blocked[one.id])}" if one.id in blocked else "")
        rows.append((one.id, one.severity.value, status, one.title, one.location, consensus(one).text))
    texts = {document.ticket.id: fence(document.text.partition("\n---\n")[2], "markdown") for document in documents}
    sections = (
        Section("Open, worst first", (table(("ticket", "severity", "status", "what", "where", "reviews"), rows),)),
        Section("Not valid, in no count", (items(text(error.message) for error in broken),)),
        *(Section(f"{one.id} {one.title}", (texts[one.id],), one.severity.value, True) for one in selected(tickets)),
    )
    summary = f"{len(unfinished)} open of {len(tickets)}{by_level}; finished: {counts}."
    return Page(f"Tickets: {name}", (summary,), (), sections)
