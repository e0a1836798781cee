"""What a review judges of a ticket, as a digest: it changes when the case changes, not when the paperwork does."""

from __future__ import annotations

import hashlib

from auditkit.store.document import Document
from auditkit.store.edits.spans import child
from auditkit.store.evidence import stable_lines

DIGITS = 12


def ticket_digest(document: Document) -> str:
    """Twelve hex digits of the evidence blocks' lines that do not change from run to run.

    Of a ticket without evidence: of What's Wrong (else the Detailed Description) and the Location rows.
    """
    blocks = [document.data[block.span.start : block.span.end] for block in document.evidence if block.fingerprint]
    lines = [line for block in blocks for line in stable_lines(block)] if blocks else _claimed(document)
    text = b"\n".join(line.rstrip() for line in lines)
    return hashlib.sha256(text).hexdigest()[:DIGITS]


def _claimed(document: Document) -> list[bytes]:
    description = document.section("Detailed Description")
    if description is not None:
        description = child(document, description, ["What's Wrong"]) or description
    lines = [f"{row.label}: {row.written}".encode() for row in document.fields("Location")]
    if description is not None:
        body = document.body(description)
        lines += document.data[body.start : document.content_end(body.end)].splitlines()
    return lines
