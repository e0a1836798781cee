"""The category boxes of the Summary: which of them are ticked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.runs.probe import CATEGORIES
from auditkit.model.text import inert_line
from auditkit.store.edits.spans import inserted
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Span

_BOX = re.compile(rb"^[ \t]*[-*+] \[([ xX])\][ \t]+([^\r\n]*?)[ \t]*\r?$", re.MULTILINE)


def set_categories(document: Document, value: str) -> Document:
    """The document with these categories ticked, separated by commas, and no others; one that is known is added.

    Raises BadInputError for a category that neither we nor the ticket know, and without a Summary.
    """
    labels = [label for _, label in _boxes(document)]
    wanted = [category_named(name.strip(), labels) for name in value.split(",") if name.strip()]
    for mark, label in _boxes(document):
        is_ticked = document.data[mark.start : mark.end] != b" "
        if is_ticked is not (label in wanted):
            document = document.replace(mark, b"x" if label in wanted else b" ")
    for label in dict.fromkeys(wanted):
        if label not in labels:
            document = _with_box(document, label)
    return document


def categories_text(document: Document) -> str:
    """The ticked categories."""
    return ", ".join(label for mark, label in _boxes(document) if document.data[mark.start : mark.end] != b" ")


def _boxes(document: Document) -> list[tuple[Span, str]]:
    """The byte between the brackets of each box, and what stands behind them."""
    heading = document.section("Summary")
    if heading is None:
        raise BadInputError("the ticket has no section '## Summary'", "add it by hand")
    body = document.body(heading)
    found = _BOX.finditer(document.data, body.start, body.end)
    return [
        (Span(*box.span(1)), box[2].decode("utf-8", "replace")) for box in found if not document.scan.hides(box.start())
    ]


def category_named(name: str, labels: Sequence[str] = ()) -> str:
    """The label of a box: one of the ticket's own `labels`, else of CATEGORIES, in any case. Raises BadInputError."""
    known = [*labels, *CATEGORIES]
    found = next((label for label in known if label.casefold() == name.casefold()), None)
    if found is None:
        near = nearest_names(name, known)
        hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(CATEGORIES)}"
        raise BadInputError(f"no such category: '{inert_line(name)}'", hint)
    return found


def _with_box(document: Document, label: str) -> Document:
    """The box behind the last one, else at the end of the section."""
    boxes, heading = _boxes(document), document.section("Summary")
    if boxes:
        end = document.data.find(b"\n", boxes[-1][0].end)
        return inserted(document, document.content_end(end if end >= 0 else len(document.data)), f"\n- [x] {label}")
    end = document.content_end(heading.section_end if heading else len(document.data))
    return inserted(document, end, f"\n\n**Category:**\n- [x] {label}")
