"""Marking a number of a ticket's text as a claim, and taking the mark out again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.text import inert_line
from auditkit.model.tickets.claim import FORM, parse_claim
from auditkit.store.edits.spans import inserted, removed
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Span, line_end
from auditkit.store.markdown.tables import CODE
from auditkit.store.reading.claim_comments import LONGEST, MARK, is_in_fence

_COMMENT = re.compile(rb"<!--.{0,2000}?-->", re.DOTALL)
_SUMMARY = re.compile(rb"\*\*One-line summary", re.IGNORECASE)
_TABLES = ("Ticket Metadata", "Location")
_MOST_NAMED = 5


def mark(document: Document, text: str, claim: str, line: int | None = None) -> Document:
    """The document with `claim` as a comment behind `text`, where that stands once (or once in `line`).

    Raises BadInputError for a claim that cannot be read, and for text that stands nowhere, several times, or
    where a comment would become part of a value: in a heading, a metadata row, the summary line, code that
    is fenced, or what is written by commands.
    """
    written = " ".join(claim.split())
    problem = parse_claim(written).problem
    if problem or "--" in written or "|" in written or len(written) > LONGEST:
        raise BadInputError(problem or f"not a claim: '{inert_line(claim)}'", f"a claim is PROBE {FORM}")
    end = _end_of(document, text, line)
    return inserted(document, end, f" <!-- claim: {written} -->")


def unmark(document: Document, text: str, line: int | None = None) -> Document:
    """The document without the claim behind `text`; raises BadInputError where there is none."""
    end = _end_of(document, text, line)
    found = re.compile(rb"[ \t]*" + MARK.pattern).match(document.data, end)
    if found is None:
        raise BadInputError(f"no claim stands behind '{inert_line(text)}'", "auditkit ticket claim ID lists all")
    return removed(document, Span(found.start(), found.end()))


def _end_of(document: Document, text: str, line: int | None) -> int:
    """Where the one place of `text` that can be marked ends: behind its code span, if it is in one."""
    places = list(_places(document, text, line))
    if len(places) == 1:
        return places[0]
    if places:
        lines = ", ".join(str(document.line_number(place)) for place in places[:_MOST_NAMED])
        raise BadInputError(f"'{inert_line(text)}' stands {len(places)} times", f"--line N: {lines}")
    near = nearest_names(text, _lines_of(document))
    hint = f"did you mean a part of '{inert_line(near[0])}'?" if near else "a number or words of the ticket's own text"
    where = f" in line {line}" if line is not None else ""
    raise BadInputError(f"'{inert_line(text)}' stands nowhere{where} that can be marked", hint)


def _places(document: Document, text: str, line: int | None) -> Iterator[int]:
    wanted = text.strip().encode()
    if not wanted:
        return
    for match in re.finditer(re.escape(wanted), document.data):
        if line is not None and document.line_number(match.start()) != line:
            continue
        span = Span(match.start(), match.end())
        if not _is_taken(document, span):
            yield _behind_code(document.data, span)


def _is_taken(document: Document, span: Span) -> bool:
    """Whether the place belongs to something that a comment would change."""
    start = document.data.rfind(b"\n", 0, span.start) + 1
    blocks = [block.span for block in document.evidence]
    tables = [document.body(heading) for title in _TABLES if (heading := document.section(title)) is not None]
    headings = [heading.line for heading in document.scan.headings]
    within = [*blocks, *tables, *headings]
    return (
        any(one.start <= span.start < one.end for one in within)
        or is_in_fence(document, span.start)
        or _SUMMARY.match(document.data, start) is not None
        or any(one.start() < span.end and span.start < one.end() for one in _COMMENT.finditer(document.data))
    )


def _behind_code(data: bytes, span: Span) -> int:
    """The end of the span, or of the code span that it lies in."""
    start = data.rfind(b"\n", 0, span.start) + 1
    for code in CODE.finditer(data, start, line_end(data, start)):
        if code.start() <= span.start and span.end <= code.end():
            return code.end()
    return span.end


def _lines_of(document: Document) -> list[str]:
    return [line.strip() for line in document.data.decode("utf-8", "replace").splitlines() if line.strip()]
