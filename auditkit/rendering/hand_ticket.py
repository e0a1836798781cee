"""A ticket that somebody writes by hand, in the look of those that probes file."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from auditkit.model.enums import Severity
from auditkit.model.runs.probe import CATEGORIES
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import AGENT_NAMES, TicketId, agent_name, id_parts
from auditkit.model.tickets.ticket import LineRange, Status, Ticket
from auditkit.rendering import markdown
from auditkit.rendering.environment import render

REVIEWERS = ("DRL Specialist", "PyTorch Specialist", "Code Review Specialist")
"""Whose cross-reviews a new ticket asks for."""


@dataclass(frozen=True)
class Draft:
    """What a new ticket says; `lines` are first and last lines, `report` the file of the first report.

    `title` and `summary` are one line, `description` and `fix` prose in which closed fences stay fences.
    """

    title: str
    severity: Severity
    files: Sequence[str] = ()
    lines: Sequence[tuple[int, int]] = ()
    function: str = ""
    domains: Sequence[str] = ()
    categories: Sequence[str] = ()
    summary: str = ""
    description: str = ""
    fix: str = ""
    verification: Sequence[str] = ()
    report: str = ""


def ticket_of_draft(
    draft: Draft, ticket_id: TicketId, today: datetime.date, agents: Mapping[str, str] = AGENT_NAMES
) -> Ticket:
    """An open ticket of `today` with what the draft says, and nothing where that says nothing."""
    batch, code, _ = id_parts(ticket_id)
    lines = tuple(LineRange("", first, last) for first, last in draft.lines)
    return Ticket(
        id=ticket_id,
        title=markdown.line(draft.title),
        severity=draft.severity,
        severity_written=draft.severity.value,
        status=Status.OPEN,
        status_written=Status.OPEN.value,
        batch=batch,
        agent=agent_name(code, agents),
        domains=_names(draft.domains),
        assignee="",
        created=today.isoformat(),
        updated=today.isoformat(),
        files=_names(draft.files),
        lines_written=", ".join(f"`{span}`" for span in lines),
        lines=lines,
        function=markdown.code(draft.function).replace("\\|", "|"),
        summary=markdown.line(draft.summary or draft.title),
        categories=tuple(box for box in CATEGORIES if box in draft.categories),
        path=PurePath(f"batch{batch}") / f"{ticket_id}.md",
    )


def render_draft(
    draft: Draft, ticket_id: TicketId, today: datetime.date, agents: Mapping[str, str] = AGENT_NAMES
) -> bytes:
    """The whole file of a hand-made ticket, in the look of `templates/hand_ticket.md.j2`."""
    return render(
        "hand_ticket.md.j2",
        ticket=ticket_of_draft(draft, ticket_id, today, agents),
        boxes=CATEGORIES,
        description=markdown.prose(draft.description),
        fix=markdown.prose(draft.fix),
        verifications=[item for item in draft.verification if inert_line(item)],
        report=draft.report,
        related=(),
        reviewers=REVIEWERS,
    )


def read_spans(text: str) -> tuple[tuple[int, int], ...]:
    """First and last lines of `10-12, 40`; raises ValueError for anything else."""
    spans = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", part)
        if match is None or not 0 < int(match[1]) <= int(match[2] or match[1]):
            raise ValueError(f"not lines: '{part}'")
        spans.append((int(match[1]), int(match[2] or match[1])))
    return tuple(spans)


def _names(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for text in texts if (name := inert_line(text)))
