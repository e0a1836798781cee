"""The status of a ticket, and the list of how it changed."""

from __future__ import annotations

import datetime

from auditkit.model.text import inert_line
from auditkit.model.tickets.ticket import Status
from auditkit.store.markdown.document import Document


def with_status(document: Document, new: Status, reason: str, today: datetime.date) -> Document:
    """The document with another status, Updated date, and the reason where there is one."""
    row = document.field("Status")
    changed = document.set_field("Status", new.value)
    if changed.field("Updated") is not None:
        changed = changed.set_field("Updated", today.isoformat())
    if not reason.strip():
        return changed
    # What looks like a comment would hide everything below it.
    told = inert_line(reason).replace("<!--", "&lt;!--")
    line = f"- {today.isoformat()}: {row.text if row and row.text else 'none'} to {new.value}: {told}"
    return changed.append_to_subsection("Resolution", "Status Changes", line)
