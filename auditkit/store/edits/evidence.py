"""Putting an evidence block where it belongs: in the place of the one with its fingerprint, or among the others."""

from __future__ import annotations

from auditkit.store.document import Document, EvidenceBlock
from auditkit.store.edits.spans import inserted

_BELOW = ("Recommended Fix", "Verification")
"""A first block stands above the first of these sections that the ticket has, else at its end."""


def find_evidence(document: Document, fingerprint: str) -> EvidenceBlock | None:
    """The block with that fingerprint."""
    return next((block for block in document.evidence if block.fingerprint == fingerprint), None)


def put_evidence(document: Document, fingerprint: str, block: bytes) -> Document:
    """The document with `block` for that fingerprint, and nothing else changed but a blank line."""
    old = find_evidence(document, fingerprint)
    if old is not None:
        return document.set_evidence(old, block)
    others = [one for one in document.evidence if one.fingerprint]
    if others:
        return document.insert_evidence(others[-1], block)
    text = block.decode().rstrip("\n")
    heading = next((found for title in _BELOW if (found := document.section(title)) is not None), None)
    if heading is not None:
        return inserted(document, heading.line.start, f"{text}\n\n")
    end = document.content_end(len(document.data))
    return inserted(document, end, f"\n\n{text}")
