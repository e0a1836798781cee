"""What people said of a ticket: the Discussion section, a heading for each comment."""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditkit.model.tickets.comment import Comment
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Heading

TITLES = ("discussion", "comments")
_HEADING = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}))?\s*[,:–-]\s*(\S.*)")


@dataclass(frozen=True)
class CommentAt:
    """A comment and its heading, whose section is the whole of it."""

    comment: Comment
    heading: Heading


def discussion(document: Document) -> Heading | None:
    """The section that holds the comments."""
    return next((found for title in TITLES if (found := document.section(title))), None)


def read_comments(document: Document) -> tuple[CommentAt, ...]:
    """The comments of the section in the order of the file: `### 2026-03-04 14:05, ada` and what stands below.

    A heading that does not begin with a date is a comment of nobody at no time.
    """
    section = discussion(document)
    if section is None:
        return ()
    inside = (one for one in document.scan.headings if section.line.start < one.line.start < section.section_end)
    return tuple(_comment(document, one) for one in inside if one.level == 3)


def _comment(document: Document, heading: Heading) -> CommentAt:
    match = _HEADING.fullmatch(heading.text.strip())
    date = f"{match[1]} {match[2]}" if match and match[2] else match[1] if match else ""
    body = document.body(heading)
    end = max(document.content_end(body.end), body.start)
    text = document.data[body.start : end].decode("utf-8", "replace").replace("\r\n", "\n").strip()
    line = document.line_number(heading.line.start)
    return CommentAt(Comment(match[3].strip(" `*") if match else "", date, text, line), heading)
