"""Put what trying a fix showed into its ticket, below the fix that was tried."""

from __future__ import annotations

import re

from auditkit.store.document import Document, EvidenceBlock

_SECTION = "Recommended Fix"
_TRIED = re.compile(rb"^\|[ *]*Tried[ *]*\|[ ]*`+[ ]?(.*?)[ ]?`+[ ]*\|", re.MULTILINE)


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
