"""The page of a folder of tickets: counts, what is open by file, and what the reviewers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from auditkit.model.ticket import Status, Ticket
from auditkit.reports.page import Code, Folded, Items, Link, Page, Section, Spans, Table, Written
from auditkit.tickets.document import Document, TicketFileError
from auditkit.tickets.lifecycle import consensus
from auditkit.tickets.queue import blockers, selected
from auditkit.tickets.store import TicketFolder

_MOST_OPEN = 20
"""Tickets whose texts are unfolded from the start, if there are no more."""


def read_tickets(folder: TicketFolder) -> tuple[list[Document], list[TicketFileError]]:
    """Return the tickets of a folder, and the files that are not valid."""
    documents, broken = [], []
    for ticket_id in folder.ids():
        try:
            documents.append(folder.read(ticket_id))
        except TicketFileError as error:
            broken.append(error)
    return documents, broken


def tickets_page(documents: Sequence[Document], broken: Sequence[TicketFileError], name: str) -> Page:
    """Return the page of a folder: counts, the tickets worst first, and (in HTML) each ticket's text."""
    tickets = [document.ticket for document in documents]
    unfinished = selected(tickets, all_statuses=False)
    finished = Counter(ticket.status.value for ticket in tickets if ticket.status.is_finished)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(finished.items())) or "none"
    sections = [
        Section("Open, by severity and status", (_matrix(unfinished),)),
        Section("Open, worst first", (_table(unfinished),)),
        Section("By file", (Items(tuple(_by_file(unfinished))),)),
    ]
    disputed = [one for one in unfinished if consensus(one).kind in ("disputed", "refined")]
    for title, rows in (
        ("Reviewers disagree", [f"{one.id} {one.title}: {consensus(one).text}" for one in disputed]),
        ("Not valid, in no count", [error.message for error in broken]),
    ):
        if rows:
            sections.append(Section(title, (Items(tuple((row,) for row in rows)),)))
    texts = {document.ticket.id: document.text.partition("\n---\n")[2] for document in documents}
    cards = tuple(
        Section(
            f"{one.id} {one.title}",
            (Written(texts[one.id]),),
            anchor=f"t-{one.id}",
            severity=one.severity.value,
            lead=(f"{one.status.value} {one.location}",),
            is_open=not one.status.is_finished and len(tickets) <= _MOST_OPEN,
        )
        for one in selected(tickets)
    )
    sections.append(Section("Texts", (Folded("The text of every ticket", cards),)))
    summary = f"{len(unfinished)} open of {len(tickets)}; finished: {counts}."
    return Page(f"Tickets: {name}", (summary,), (), tuple(sections if unfinished or broken else sections[-1:]))


def _matrix(tickets: Sequence[Ticket]) -> Table:
    """Return the numbers of open tickets by severity and status."""
    statuses = [status for status in Status if any(ticket.status is status for ticket in tickets)]
    rows = []
    for severity in sorted({ticket.severity for ticket in tickets}):
        own = Counter(ticket.status for ticket in tickets if ticket.severity is severity)
        rows.append((severity.value, *(str(own[status]) for status in statuses)))
    return Table(("severity", *(status.value for status in statuses)), tuple(rows))


def _table(tickets: Sequence[Ticket]) -> Table:
    blocked = blockers(tickets)
    rows = []
    for one in tickets:
        status = one.status.value + (f", blocked by {', '.join(blocked[one.id])}" if one.id in blocked else "")
        cells = (one.severity.value, status, one.title, one.location, consensus(one).text)
        rows.append((Link(one.id, f"t-{one.id}"), *cells))
    return Table(("ticket", "severity", "status", "what", "where", "reviews"), tuple(rows))


def _by_file(tickets: Sequence[Ticket]) -> Iterator[Spans]:
    files: dict[str, list[str]] = {}
    for ticket in tickets:
        for file in dict.fromkeys(place.file for place in ticket.places) or ["(no file)"]:
            files.setdefault(file, []).append(f"{ticket.id} ({ticket.severity.value})")
    yield from ((Code(file), f": {', '.join(ids)}") for file, ids in sorted(files.items()))
