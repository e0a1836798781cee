"""A finished ticket that opens again: what was reviewed and resolved before is kept, dated, and counts no more."""

from __future__ import annotations

import datetime

from auditkit.rules.tickets.lifecycle import says_something
from auditkit.store.edits.spans import inserted, removed, replaced
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Heading, Span
from auditkit.store.reading.resolution import ENDED, read_resolution
from auditkit.store.reading.reviews import read_reviews

_CHANGES = "Status Changes"
_EMPTY = """## Resolution

| Field | Value |
|-------|-------|
| **Fixed By** | |
| **Fixed Date** | |
| **Commit** | |"""


def reopened(document: Document, today: datetime.date) -> Document:
    """The document with its reviews and its resolution under titles that say until when they held.

    No reader takes these for reviews and resolutions any more. A Resolution that nobody has filled in takes the
    place of the old one, and keeps the list of status changes.
    """
    old = read_resolution(document)
    starts = {found.section.line.start for found in read_reviews(document)}
    first = None
    if old is not None and says_something(old):
        ended = [one for one in document.scan.headings if one.level == 2 and ENDED.match(one.text)]
        starts |= {one.line.start for one in ended}
        first = ended[0].line.start
    document, told = _without_changes(document) if first is not None else (document, "")
    for start in sorted(starts, reverse=True):
        heading = _at(document, start)
        title = f"## Earlier {heading.text}, until {today.isoformat()}"
        document = replaced(document, Span(heading.line.start, heading.line.end), title)
        if start == first:
            changes = f"\n\n### {_CHANGES}\n\n{told}" if told else ""
            document = inserted(document, start, f"{_EMPTY}{changes}\n\n---\n\n")
    return document


def _without_changes(document: Document) -> tuple[Document, str]:
    """The document without its list of status changes, and that list."""
    heading = document.section(_CHANGES, level=3)
    if heading is None:
        return document, ""
    end = document.content_end(heading.section_end)
    told = document.data[heading.line.end : end].decode().replace("\r\n", "\n").strip()
    return removed(document, Span(document.content_end(heading.line.start), end)), told


def _at(document: Document, start: int) -> Heading:
    return next(heading for heading in document.scan.headings if heading.line.start == start)
