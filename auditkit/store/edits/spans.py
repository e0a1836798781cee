"""The one way in which an edit touches bytes: a span is replaced, and the rest still reads as before."""

from __future__ import annotations

import re

from auditkit.errors import BadInputError
from auditkit.store.markdown.document import BrokenFileError, Document
from auditkit.store.markdown.scan import Span


def replaced(document: Document, span: Span, text: str) -> Document:
    """The document with `text` in the place of `span`, in the file's own line ends.

    Raises BadInputError where `text` would change how anything outside it is read: an open fence or
    comment, a marker, a merge conflict.
    """
    data = text.encode().replace(b"\r\n", b"\n").replace(b"\n", document.newline)
    try:
        changed = document.replace(span, data)
    except BrokenFileError as error:
        raise BadInputError(
            f"this text would break the ticket: {error.broken.message}", "leave it out, or indent it as code"
        ) from error
    now = Span(span.start, span.start + len(data))
    if _around(document, span) != _around(changed, now, len(data) - (span.end - span.start)):
        raise BadInputError(
            "this text would hide or change what is below it in the ticket", "close its fences and comments"
        )
    return changed


def inserted(document: Document, position: int, text: str) -> Document:
    """The document with `text` at `position`; raises as `replaced` does."""
    return replaced(document, Span(position, position), text)


def removed(document: Document, span: Span) -> Document:
    """The document without the bytes of `span`."""
    return document.replace(span, b"")


def rule_of(document: Document) -> str:
    """What stands above a new section: a rule, where the ticket has rules between its sections."""
    return "---\n\n" if re.search(rb"^---[ \t]*\r?$", document.data, re.MULTILINE) else ""


def _around(document: Document, span: Span, shift: int = 0) -> list[tuple[str, int]]:
    """What was found outside `span`, in the places it has without the shift of what comes behind."""
    scan = document.scan
    found = [(f"{heading.level} {heading.text}", heading.line.start) for heading in scan.headings]
    found += [(f"marker {marker.is_start}", marker.line.start) for marker in scan.markers]
    found += [("hidden", hidden.start) for hidden in scan.hidden]
    found = [(what, place) for what, place in found if not span.start <= place < span.end]
    # A fence or a comment that starts outside has to end where it did, whatever line end is behind it now.
    for hidden in scan.hidden:
        if not span.start <= hidden.start < span.end:
            text = document.data[hidden.start : hidden.end].rstrip(b"\r\n")
            found.append(("shown", hidden.start + len(text)))
    return sorted((what, place if place <= span.start else place - shift) for what, place in found)
