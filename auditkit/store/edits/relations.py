"""One entry of Related Findings, in the form that the section has: a table row, or a list entry."""

from __future__ import annotations

import re

from auditkit.errors import BadInputError
from auditkit.model.tickets.ids import TicketId
from auditkit.model.tickets.relation import RelationKind
from auditkit.store.edits.spans import inserted, removed, replaced, rule_of
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.lines import Table, blocks_of
from auditkit.store.markdown.scan import Heading, Span, line_end, next_line
from auditkit.store.markdown.tables import split_row
from auditkit.store.reading.relations import RelationAt, read_relations

_TITLE = "Related Findings"
_NONE = "None."
_NOTHING = re.compile(r"(?:[-*+]\s+)?(?:none|n/?a|nothing)\.?", re.IGNORECASE)
_AFTER = re.compile(r"cross[ -]?review|investigation notes|resolution|appendix", re.IGNORECASE)


def link(document: Document, other: TicketId, kind: RelationKind, note: str = "") -> Document:
    """The document with `other` among its related findings, as `kind`; `note` is Markdown on one line.

    An entry that names `other` already gets the kind, and the note where one is given; one that says the
    same stays as it is. Raises BadInputError where `other` is named in free text.
    """
    own = _entries(document, other)
    if own:
        changed = _with_kind(document, own[0], kind)
        return _with_note(changed, _entries(changed, other)[0], note)
    changed = _added(document, other, kind, note)
    if not any(found.relation.kind in (kind, None) for found in _entries(changed, other)):
        raise BadInputError(f"the note would be read as something else: {note!r}")
    return changed


def unlink(document: Document, other: TicketId) -> Document:
    """The document without the entries that name `other`; as it is where there is none.

    A section that has nothing else says `None.` then. Raises BadInputError where `other` is named in free text.
    """
    while own := _entries(document, other):
        document = _without_entry(document, own[0].line)
    return document


def _entries(document: Document, other: TicketId) -> list[RelationAt]:
    found = [found for found in read_relations(document) if found.relation.id == other]
    for entry in found:
        if entry.relation.form == "text":
            raise BadInputError(
                f"{other} is named in a sentence of {_TITLE} (line {entry.relation.line})", "make it a list entry first"
            )
    return found


def _with_kind(document: Document, entry: RelationAt, kind: RelationKind) -> Document:
    old = entry.relation.kind
    if old is kind or (old is None and kind is RelationKind.RELATED and not entry.relation.kind_written):
        return document
    if entry.kind is not None:
        raw = document.data[entry.kind.start : entry.kind.end].decode()
        mark = "`" if "`" in raw or not raw.strip() else ""
        return replaced(document, entry.kind, f" {mark}{kind.value}{mark} ")
    line = document.data[entry.line.start : entry.line.end].decode()
    marker = re.match(r"\s*[-*+]\s+", line)
    place = line.find(entry.relation.id)
    start = marker.end() if marker else 0
    # What decorates the id stays with it: - **B7-PT-02**: note
    decoration = re.search(r"[*_`]*$", line[start:place])
    stop = decoration.start() + start if decoration else place
    return replaced(document, _characters(line, entry.line, start, stop), _lead(kind))


def _with_note(document: Document, entry: RelationAt, note: str) -> Document:
    if not note or entry.relation.note == note:
        return document
    if entry.relation.form == "table":
        cells = split_row(document.data, entry.line)
        written = note.replace("|", "\\|")
        if len(cells) > 2:
            return replaced(document, cells[2], f" {written} ")
        return inserted(document, entry.line.end, f" {written} |")
    line = document.data[entry.line.start : entry.line.end].decode()
    behind = line.find(entry.relation.id) + len(entry.relation.id)
    behind += len(line[behind:]) - len(line[behind:].lstrip("*_`"))
    return replaced(document, _characters(line, entry.line, behind, len(line.rstrip("\r"))), f": {note}")


def _added(document: Document, other: TicketId, kind: RelationKind, note: str) -> Document:
    section = document.section(_TITLE)
    if section is None:
        return _with_section(document, _entry(other, kind, note))
    table = _table(document, section)
    entries = read_relations(document)
    if table is not None and (not entries or entries[-1].relation.form == "table"):
        row = f"\n| `{other}` | `{kind.value}` | {note.replace('|', chr(92) + '|')} |".replace("|  |", "| |")
        return inserted(document, table, row)
    entry = _entry(other, kind, note)
    bullets = [found for found in entries if found.relation.form == "bullet"]
    if bullets:
        return inserted(document, _end_of_entry(document, bullets[-1].line), f"\n{entry}")
    end = document.content_end(section.section_end)
    body = Span(section.line.end, max(end, section.line.end))
    if _NOTHING.fullmatch(document.data[body.start : body.end].decode().strip()):
        return replaced(document, body, f"\n\n{entry}")
    return inserted(document, end, f"\n\n{entry}")


def _entry(other: TicketId, kind: RelationKind, note: str) -> str:
    return f"- {_lead(kind)}{other}{f': {note}' if note else ''}"


def _lead(kind: RelationKind) -> str:
    return "" if kind is RelationKind.RELATED else f"{kind.value} "


def _with_section(document: Document, entry: str) -> Document:
    following = [h.line.start for h in document.scan.headings if h.level == 2 and _AFTER.match(h.text)]
    end = document.content_end(next(iter(following), len(document.data)))
    return inserted(document, end, f"\n\n{rule_of(document)}## {_TITLE}\n\n{entry}")


def _table(document: Document, section: Heading) -> int | None:
    """Where the last row of the section's last table ends, its delimiter row too."""
    end = None
    for block in blocks_of(document.data, document.body(section), document.scan.hidden):
        if isinstance(block, Table) and block.header is not None:
            last = block.rows[-1].span if block.rows else block.header.span
            end = last.end if block.rows else line_end(document.data, next_line(document.data, last.end))
    return end


def _end_of_entry(document: Document, line: Span) -> int:
    """Where a list entry ends: lines below it that are indented belong to it."""
    end = line.end
    while (start := next_line(document.data, end)) < len(document.data):
        stop = line_end(document.data, start)
        if not document.data[start:stop].strip() or document.data[start : start + 1] not in (b" ", b"\t"):
            break
        end = stop
    return end


def _without_entry(document: Document, line: Span) -> Document:
    """The document without an entry's lines."""
    end = _end_of_entry(document, line)
    section = document.section(_TITLE)
    assert section is not None, "the entry is in it"
    above = document.data[section.line.end : line.start]
    if not above.strip() and document.content_end(section.section_end) <= end:
        return replaced(document, Span(section.line.end, end), f"\n\n{_NONE}")
    return removed(document, Span(line.start, next_line(document.data, end)))


def _characters(line: str, span: Span, start: int, end: int) -> Span:
    """The bytes of `line[start:end]`, where the line starts at `span.start`."""
    return Span(span.start + len(line[:start].encode()), span.start + len(line[:end].encode()))
