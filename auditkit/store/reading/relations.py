"""Related Findings: a table, a list or free text, entry by entry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from auditkit.model.tickets.ids import TicketId, find_ticket_ids
from auditkit.model.tickets.relation import Relation, RelationKind, read_relation
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.lines import Line, Row, Table, blocks_of
from auditkit.store.markdown.scan import Span

_kind_meant = lru_cache(read_relation)
_BULLET = re.compile(r"[-*+]\s+(.*)")
_NOTHING = re.compile(r"(?:none|n/?a|nothing|-)\b.*|-*", re.IGNORECASE)
_LEAD = re.compile(r"[*_`]*([A-Za-z][A-Za-z -]{2,20}?)(?: (?:of|to|by|with))?:?[*_`]*:?\s*[*_`]*$")
_TAIL = re.compile(r"^[*_`]*\s*(?:[:,–—-]+\s*)?")


@dataclass(frozen=True)
class RelationAt:
    """A relation, the whole line it is in, and what an edit of its kind replaces (None where it has none)."""

    relation: Relation
    line: Span
    kind: Span | None


def may_block(document: Document) -> bool:
    """Whether a relation of the document may be one that blocks; False is certain."""
    heading = document.section("Related Findings")
    if heading is None:
        return False
    # A kind is read without its decoration; the long s and the Kelvin sign stand for other letters than these.
    return b"bloc" in document.data[heading.line.end : heading.section_end].translate(None, b"*`").lower()


def read_relations(document: Document) -> tuple[RelationAt, ...]:
    """Every entry of the Related Findings section; one without a ticket id has the id ""."""
    heading = document.section("Related Findings")
    if heading is None:
        return ()
    found: list[RelationAt] = []
    for block in blocks_of(document.data, document.body(heading), document.scan.hidden):
        if isinstance(block, Table):
            rows = block.rows if block.header is None or _is_header(block.header) else (block.header, *block.rows)
            found += filter(None, (_of_row(document, row) for row in rows))
        else:
            found += _of_line(document, block)
    return tuple(found)


def _is_header(row: Row) -> bool:
    return not any(find_ticket_ids(text) for text in row.texts)


def _of_row(document: Document, row: Row) -> RelationAt | None:
    if not any(text.strip("*` -") for text in row.texts) or "{" in row.texts[0]:
        return None  # an empty row, or the template's own
    ids = find_ticket_ids(row.texts[0])
    kind = row.texts[1].strip("*` ") if len(row.texts) > 1 else ""
    note = row.texts[2] if len(row.texts) > 2 else ""
    relation = Relation(ids[0] if ids else "", _kind_meant(kind), kind, note, "table", *_place(document, row.span))
    return RelationAt(relation, row.span, row.place(1) if len(row.cells) > 1 else None)


def _of_line(document: Document, line: Line) -> Iterator[RelationAt]:
    bullet = _BULLET.match(line.text)
    text = bullet[1] if bullet else line.text
    ids = find_ticket_ids(text)
    if _NOTHING.fullmatch(text) or not (ids or bullet):
        return
    form = "bullet" if bullet else "text"
    first = text.upper().find(ids[0]) if ids else 0
    lead = _LEAD.match(text[:first])
    kind = _kind_of(lead[1]) if lead else None
    note = _TAIL.sub("", text[first + len(ids[0]) :]).strip() if ids else text
    # A list entry is about the first ticket that it names; free text is about each.
    named: list[TicketId | str] = [*ids] if form == "text" else [*ids[:1]]
    for ticket_id in named or [""]:
        relation = Relation(ticket_id, kind, kind.value if kind else "", note, form, *_place(document, line.span))
        yield RelationAt(relation, line.span, None)


def _kind_of(text: str) -> RelationKind | None:
    return _kind_meant(text) or _kind_meant(text.partition(" ")[0])


def _place(document: Document, span: Span) -> tuple[int, str]:
    written = document.data[span.start : span.end].decode("utf-8", "replace")
    return document.line_number(span.start), written.strip()
