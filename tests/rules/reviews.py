"""Reviews and tickets for the tests of consensus, with every field that does not matter filled in."""

from __future__ import annotations

from typing import Any

from auditkit.model.enums import Severity
from auditkit.model.tickets.ids import parse_ticket_id
from auditkit.model.tickets.review import Review, ReviewForm, Verdict
from auditkit.model.tickets.ticket import Resolution, Status, Ticket


def review(reviewer: str = "drl", verdict: Verdict | None = Verdict.ENDORSE, line: int = 1, **others: Any) -> Review:
    fields: dict[str, Any] = {
        "reviewer": reviewer,
        "reviewer_written": reviewer,
        "verdict": verdict,
        "verdict_written": verdict.value if verdict else "",
        "extra": "",
        "form": ReviewForm.FIELD_VALUE,
        "columns": (),
        "section": "Cross-Review",
        "evaluation": "",
        "date": "",
        "severity": None,
        "judged": "",
        "line": line,
    }
    return Review(**(fields | others))


def ticket(*reviews: Review, severity: Severity | None = Severity.P2, **others: Any) -> Ticket:
    status = others.pop("status", Status.OPEN)
    fields: dict[str, Any] = {
        "id": parse_ticket_id("B1-PT-01"),
        "title": "A title",
        "severity": severity,
        "severity_written": severity.value if severity else "P9",
        "status": status,
        "status_written": status.value if status else "?",
        "batch": 1,
        "agent": "pytorch",
        "domains": (),
        "assignee": "",
        "created": "",
        "updated": "",
        "files": (),
        "lines_written": "",
        "lines": (),
        "function": "",
        "summary": "",
        "categories": (),
        "reviews": reviews,
    }
    return Ticket(**(fields | others))


def resolution(text: str) -> Resolution:
    return Resolution(("Resolution",), text, "", (), (), (), (), (), 1)
