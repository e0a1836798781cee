"""From a document to the page that rules about the writing look at."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from auditkit.model.tickets.page import Cell, CodeBlock, Page, Section
from auditkit.model.tickets.ticket import Ticket
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Heading, Span, next_line
from auditkit.store.markdown.tables import Field
from auditkit.store.reading.claim_comments import read_claims
from auditkit.store.reading.reader import ticket_of

_FENCE = re.compile(rb"[ \t]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})[ \t]*([\w+-]*)")


def page_of(document: Document, ticket: Ticket | None = None) -> Page:
    """The document's ticket with its lines and parts; raises BrokenFileError as `ticket_of` does."""
    text = document.data.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").split("\n")
    ends_with_newline = lines[-1] == ""
    if ends_with_newline:
        lines.pop()
    return Page(
        ticket=ticket or ticket_of(document),
        lines=tuple(lines),
        visible=tuple(_visible(document, len(lines))),
        ends_with_newline=ends_with_newline,
        sections=tuple(_section(document, heading) for heading in document.scan.headings),
        code_blocks=tuple(_code_blocks(document)),
        metadata=tuple(_cell(document, row) for row in document.metadata),
        location=tuple(_cell(document, row) for row in document.fields("Location")),
        claims=read_claims(document),
    )


def _visible(document: Document, count: int) -> list[bool]:
    visible = [True] * count
    for span in document.scan.hidden:
        first, last = document.line_number(span.start), document.line_number(max(span.end - 1, span.start))
        for number in range(first, min(last, count) + 1):
            visible[number - 1] = False
    return visible


def _section(document: Document, heading: Heading) -> Section:
    is_last = heading.section_end >= len(document.data)
    end = document.line_number(heading.section_end) + (1 if is_last and not document.data.endswith(b"\n") else 0)
    return Section(heading.level, heading.text, document.line_number(heading.line.start), end)


def _code_blocks(document: Document) -> Iterator[CodeBlock]:
    headings = document.scan.headings
    places = [heading.line.start for heading in headings]
    evidence = [block.span for block in document.evidence]
    for span in document.scan.hidden:
        fence = _FENCE.match(document.data, span.start, span.end)
        if fence is None:
            continue
        above = headings[: bisect.bisect(places, span.start)]
        h2 = next((heading for heading in reversed(above) if heading.level <= 2), None)
        h3 = next((heading for heading in reversed(above) if heading.level <= 3), None)
        yield CodeBlock(
            language=fence[2].decode("utf-8", "replace").casefold(),
            line=document.line_number(span.start),
            text=_inside(document, span, fence[1]),
            h2=h2.text if h2 and h2.level == 2 else "",
            h3=h3.text if h3 and h3.level == 3 else "",
            is_evidence=any(block.start <= span.start < block.end for block in evidence),
        )


def _inside(document: Document, span: Span, fence: bytes) -> str:
    """What stands between the fences; the closing one may be missing."""
    start = next_line(document.data, span.start)
    text = document.data[start : span.end]
    last = text.rstrip(b"\r\n").rfind(b"\n") + 1
    closing = text[last:].strip()
    if closing and closing.strip(fence[:1]) == b"" and len(closing) >= len(fence):
        text = text[:last]
    return text.decode("utf-8", "replace").replace("\r\n", "\n")


def _cell(document: Document, row: Field) -> Cell:
    start = document.data.rfind(b"\n", 0, row.value.start) + 1
    before = document.data[start : row.value.start].decode("utf-8", "replace")
    return Cell(row.label, row.text, row.written, document.line_number(row.value.start), len(before) + 1)
