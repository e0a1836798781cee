"""The page of a folder of tickets: counts, what is open by file, and what the reviewers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from auditkit.model.ticket import Status, Ticket
from auditkit.tickets import markdown
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


def markdown_report(documents: Sequence[Document], broken: Sequence[TicketFileError], name: str) -> bytes:
    """Return the page as Markdown."""
    tickets = [document.ticket for document in documents]
    unfinished = selected(tickets, all_statuses=False)
    finished = Counter(ticket.status.value for ticket in tickets if ticket.status.is_finished)
    told = ", ".join(f"{count} {status}" for status, count in sorted(finished.items())) or "none"
    lines = [f"# Tickets: {markdown.line(name)}", ""]
    lines += [f"{len(unfinished)} open of {len(tickets)}; finished: {told}.", ""]
    if unfinished:
        lines += [*_matrix(unfinished), "", "## Open, worst first", "", *_open(unfinished), ""]
        lines += ["## By file", "", *_by_file(unfinished), ""]
    disputed = [one for one in unfinished if consensus(one).kind in ("disputed", "refined")]
    if disputed:
        lines += ["## Reviewers disagree", ""]
        lines += [f"- {one.id} {markdown.line(one.title)}: {markdown.line(consensus(one).text)}" for one in disputed]
        lines.append("")
    if broken:
        lines += ["## Not valid, in no count", "", *(f"- {markdown.line(error.message)}" for error in broken), ""]
    return ("\n".join(lines).rstrip("\n") + "\n").encode()


def _matrix(tickets: Sequence[Ticket]) -> list[str]:
    """Return the numbers of open tickets by severity and status."""
    statuses = [status for status in Status if any(ticket.status is status for ticket in tickets)]
    rows = [f"| | {' | '.join(status.value for status in statuses)} |", "|---" * (len(statuses) + 1) + "|"]
    for severity in sorted({ticket.severity for ticket in tickets}):
        own = Counter(ticket.status for ticket in tickets if ticket.severity is severity)
        rows.append(f"| {severity.value} | {' | '.join(str(own[status]) for status in statuses)} |")
    return rows


def _open(tickets: Sequence[Ticket]) -> list[str]:
    blocked = blockers(tickets)
    rows = ["| Ticket | Severity | Status | Where | What | Reviews |", "|---|---|---|---|---|---|"]
    for one in tickets:
        status = one.status.value + (f", blocked by {', '.join(blocked[one.id])}" if one.id in blocked else "")
        cells = (one.id, one.severity.value, status, one.location, one.title, consensus(one).text)
        rows.append("| " + " | ".join(map(markdown.cell, cells)) + " |")
    return rows


def _by_file(tickets: Sequence[Ticket]) -> list[str]:
    files: dict[str, list[str]] = {}
    for ticket in tickets:
        for file in dict.fromkeys(place.file for place in ticket.places) or ["(no file)"]:
            files.setdefault(file, []).append(f"{ticket.id} ({ticket.severity.value})")
    return [f"- {markdown.code(file)}: {', '.join(ids)}" for file, ids in sorted(files.items())]


def html_report(documents: Sequence[Document], broken: Sequence[TicketFileError], name: str) -> bytes:
    """Return the page for a browser: the list, and below it each ticket's text."""
    from auditkit.reports.html.page import html_page
    from auditkit.reports.page import Items, Link, Page, Section, Table, Written

    tickets = selected([document.ticket for document in documents])
    texts = {document.ticket.id: document.text.partition("\n---\n")[2] for document in documents}
    rows = tuple(
        (
            Link(one.id, f"t-{one.id}"),
            one.severity.value,
            one.status.value,
            one.title,
            one.location,
            consensus(one).text,
        )
        for one in tickets
    )
    head = ("ticket", "severity", "status", "what", "where", "reviews")
    cards = tuple(
        Section(
            f"{one.id} {one.title}",
            (Written(texts[one.id]),),
            anchor=f"t-{one.id}",
            severity=one.severity.value,
            lead=(f"{one.status.value} {one.location}",),
            is_open=not one.status.is_finished and len(tickets) <= _MOST_OPEN,
        )
        for one in tickets
    )
    invalid = (Section("Not valid, in no count", (Items(tuple((error.message,) for error in broken)),)),)
    sections = (
        Section("Tickets, worst first", (Table(head, rows),)),
        *(invalid if broken else ()),
        Section("Texts", cards),
    )
    open_count = sum(not ticket.status.is_finished for ticket in tickets)
    return html_page(Page(name, (f"{open_count} of {len(tickets)} tickets are open.",), (), sections))
