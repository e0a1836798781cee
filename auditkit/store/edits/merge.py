"""Two branches' edits of one ticket: what only one of them changed is the same in all three texts.

Rows of a table are adjacent lines, and git takes edits of adjacent lines for a conflict, as it does with two
reviews that were added at one place. Where both sides already say what the merge has to say, there is none.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditkit.store.edits.fields import LOCATION, METADATA
from auditkit.store.edits.review_places import insert_section
from auditkit.store.edits.spans import removed
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Heading, Span
from auditkit.store.markdown.tables import Field
from auditkit.store.reading.reviews import read_reviews

_LATEST = "updated"


@dataclass(frozen=True)
class Aligned:
    """Base, ours and theirs with the rows that could be merged; `open` are the labels of those that could not."""

    base: bytes
    ours: bytes
    theirs: bytes
    open: tuple[str, ...] = ()


def align_rows(base: Document, ours: Document, theirs: Document) -> Aligned:
    """The three texts of a merge, every row of the metadata and the location merged in all of them.

    A row that one side changed is as that side has it, `Updated` that both changed is the later date, and
    a row that both changed in different ways stays as it is in each, for the merge to report. Rows that one
    of the texts lacks are left alone.
    """
    documents = (base, ours, theirs)
    edits: tuple[list[tuple[Field, bytes]], ...] = ([], [], [])
    unmerged: list[str] = []
    for section in (METADATA, LOCATION):
        for rows in _shared_rows(documents, section):
            lines = [_line(document, row) for document, row in zip(documents, rows, strict=True)]
            merged = _merged(rows, lines)
            if merged is None:
                unmerged.append(rows[0].label)
                continue
            for todo, row in zip(edits, rows, strict=True):
                todo.append((row, merged))
    first, second, third = (_with_rows(document, todo) for document, todo in zip(documents, edits, strict=True))
    return Aligned(first, second, third, tuple(unmerged))


def gather_reviews(base: Document, ours: Document, theirs: Document) -> tuple[Document, Document]:
    """Ours with the reviews that only theirs has added, and theirs without them, where both sides added some."""
    known, added = _reviewers(base), _reviewers(theirs)
    is_ours_new = any(who not in known for who in _reviewers(ours))
    for who in [who for who in added if is_ours_new and who not in known and who not in _reviewers(ours)]:
        heading = _reviewers(theirs)[who]
        end = theirs.content_end(heading.section_end)
        section = theirs.data[heading.line.start : end].decode().replace("\r\n", "\n")
        ours = insert_section(ours, section, who[0])
        theirs = _without(theirs, heading, base)
    return ours, theirs


def _reviewers(document: Document) -> dict[tuple[str, ...], Heading]:
    """The sections of reviews by the names of those who speak in them."""
    names: dict[Heading, tuple[str, ...]] = {}
    for found in read_reviews(document):
        who = found.review.reviewer or found.review.reviewer_written.casefold()
        names[found.section] = (*names.get(found.section, ()), who)
    return {who: heading for heading, who in names.items()}


def _without(document: Document, heading: Heading, base: Document) -> Document:
    """The document without a section: with the rule above it or with the one below, as `base` reads without it."""
    start, end = heading.line.start, heading.section_end
    spans = (Span(document.content_end(start), document.content_end(end)), Span(start, end))
    cut = [(removed(document, span), span.start) for span in spans]
    return next((one for one, place in cut if _around(one, place) in base.data), cut[-1][0])


def _around(document: Document, place: int) -> bytes:
    """From the last line above a place to the next heading below it."""
    first = document.data.rfind(b"\n", 0, document.content_end(place)) + 1
    below = (heading.line.end for heading in document.scan.headings if heading.line.start >= place)
    return document.data[first : next(below, len(document.data))]


def _shared_rows(documents: Sequence[Document], section: str) -> list[tuple[Field, ...]]:
    """For every label that each text has once: its row in each of them."""
    found = [_by_label(document.fields(section)) for document in documents]
    return [tuple(rows[label] for rows in found) for label in found[0] if all(label in rows for rows in found)]


def _by_label(rows: Sequence[Field]) -> Mapping[str, Field]:
    counts = Counter(row.label.casefold() for row in rows)
    return {row.label.casefold(): row for row in rows if counts[row.label.casefold()] == 1}


def _line(document: Document, row: Field) -> bytes:
    return document.data[row.line.start : row.line.end]


def _merged(rows: Sequence[Field], lines: Sequence[bytes]) -> bytes | None:
    """The line that all three get, None where both sides changed it differently."""
    base, ours, theirs = lines
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    return _later(rows, lines) if rows[0].label.casefold() == _LATEST else None


def _later(rows: Sequence[Field], lines: Sequence[bytes]) -> bytes | None:
    try:
        ours, theirs = (datetime.date.fromisoformat(row.text) for row in rows[1:])
    except ValueError:
        return None
    return lines[1] if ours >= theirs else lines[2]


def _with_rows(document: Document, rows: Sequence[tuple[Field, bytes]]) -> bytes:
    data = document.data
    for row, line in sorted(rows, key=lambda pair: pair[0].line.start, reverse=True):
        data = data[: row.line.start] + line + data[row.line.end :]
    return data
