"""What the machine-written blocks of a ticket say, row by row."""

from __future__ import annotations

from auditkit.model.ticket import EvidenceSummary
from auditkit.store.document import Document, EvidenceBlock
from auditkit.store.tables import read_fields


def read_evidence(document: Document) -> tuple[EvidenceSummary, ...]:
    """Every block with a fingerprint, in the order of the file."""
    return tuple(_summary(document, block) for block in document.evidence if block.fingerprint)


def _summary(document: Document, block: EvidenceBlock) -> EvidenceSummary:
    rows = reversed(read_fields(document.data, block.span, document.scan.hidden))
    said = {row.label.casefold(): row.text for row in rows}
    return EvidenceSummary(
        fingerprint=block.fingerprint,
        probe=said.get("probe", ""),
        target=said.get("target", ""),
        outcome=said.get("outcome", ""),
        evidence=said.get("evidence", ""),
        message=said.get("message", ""),
        revision=said.get("revision", ""),
        device=said.get("device", ""),
        torch=said.get("torch", ""),
        history=block.history,
        line=document.line_number(block.span.start),
    )
