"""Putting a machine-written block where it belongs: in the place of the one that it renews, or among the others."""

from __future__ import annotations

import re

from auditkit.store.edits.spans import inserted
from auditkit.store.markdown.document import Document, EvidenceBlock

_SECTION = "Recommended Fix"
_TRIED = re.compile(rb"^\|[ *]*Tried[ *]*\|[ ]*`+[ ]?(.*?)[ ]?`+[ ]*\|", re.MULTILINE)
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


def with_trial(document: Document, trial_id: str, block: bytes) -> Document:
    """The document with `block` in the place of the block of the same trial, else at the end of the fix's section."""
    old = next((found for found in document.evidence if _trial_of(document, found) == trial_id), None)
    if old is not None:
        return document.set_evidence(old, block)
    text = document.in_own_newlines(block).decode("utf-8").replace("\r\n", "\n")
    return document.append_to_section(_SECTION, ["", *text.split("\n")])


def _trial_of(document: Document, block: EvidenceBlock) -> str:
    found = _TRIED.search(document.data, block.span.start, block.span.end)
    is_trial = found is not None and not block.fingerprint
    return found[1].decode("utf-8", "replace").replace("\\|", "|") if found is not None and is_trial else ""
