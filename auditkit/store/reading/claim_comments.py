"""The claims of a ticket: numbers that people marked, by a comment beside them that Markdown does not show."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditkit.model.tickets.claim import Claim, JudgedClaim, parse_claim
from auditkit.model.tickets.ticket import Ticket
from auditkit.rules.tickets.claims import judge_claim
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Span, line_end

LONGEST = 400
"""Characters of a claim; the pattern takes some more for blanks, and no line takes long, however long it is."""
MARK = re.compile(rb"<!--[ \t]{0,9}claim:(?P<claim>[^\r\n]{0,500}?)-->")
_COMMENT = re.compile(rb"<!--.{0,500}?-->")
_LONGEST_WORDS = 80
"""Characters of the words beside a claim that are kept, from their end."""


def read_claims(document: Document) -> tuple[Claim, ...]:
    """Every claim of the document in its order, malformed ones included; those in fences are text."""
    if b"claim:" not in document.data:
        return ()
    return tuple(_claims(document))


def judged_claims(document: Document, ticket: Ticket) -> tuple[JudgedClaim, ...]:
    """Every claim in the order of the file, with what the evidence of the document's ticket says of it."""
    return tuple(judge_claim(claim, ticket.evidence) for claim in read_claims(document))


def _claims(document: Document) -> Iterator[Claim]:
    for match in MARK.finditer(document.data):
        if is_in_fence(document, match.start()):
            continue
        start = document.data.rfind(b"\n", 0, match.start()) + 1
        column = len(document.data[start : match.start()].decode("utf-8", "replace")) + 1
        yield parse_claim(
            match["claim"].decode("utf-8", "replace").strip(),
            _beside(document.data, Span(start, match.start())),
            document.line_number(match.start()),
            column,
        )


def is_in_fence(document: Document, position: int) -> bool:
    """Whether the byte is in fenced code, or in a comment of several lines."""
    hidden = next((span for span in document.scan.hidden if span.start <= position < span.end), None)
    if hidden is None:
        return False
    # A claim may be a line of its own.
    return MARK.match(document.data[hidden.start : hidden.end].lstrip()) is None


def _beside(data: bytes, before: Span) -> str:
    """The words before a claim: of its cell, its list item or its line, other comments left out."""
    text = _COMMENT.sub(b"", data[before.start : min(before.end, line_end(data, before.start))])
    cell = text.decode("utf-8", "replace").rpartition("|")[2].strip().lstrip("-*+ ").strip()
    return cell if len(cell) <= _LONGEST_WORDS else f"...{cell[-_LONGEST_WORDS:]}"
