"""What the machine-written blocks of a ticket say, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditkit.model.runs.measurement import Measured
from auditkit.model.tickets.ticket import CheckedRun, EvidenceSummary
from auditkit.store.markdown.document import Document, EvidenceBlock
from auditkit.store.markdown.evidence import AS_FOUND, AT_FIX, FOUND_BEFORE
from auditkit.store.markdown.lines import Row, Table, blocks_of
from auditkit.store.markdown.tables import Field, read_fields

_VERSION = re.compile(r"\(version (\d{1,6})\)")
_REVISION = re.compile(r"`(?P<revision>[0-9a-f]{7,64})`(?P<dirty> with uncommitted changes)?")
_MEASUREMENT, _RUN = "Measurement", "Run"
_MEASURED_CELLS, _RUN_CELLS = 5, 5


def read_evidence(document: Document) -> tuple[EvidenceSummary, ...]:
    """Every block with a fingerprint, in the order of the file."""
    return tuple(_summary(document, block) for block in document.evidence if block.fingerprint)


def _summary(document: Document, block: EvidenceBlock) -> EvidenceSummary:
    rows = reversed(read_fields(document.data, block.span, document.scan.hidden))
    said = {row.label.casefold(): row for row in rows}
    tables = _tables(document, block)
    return EvidenceSummary(
        fingerprint=block.fingerprint,
        probe=_text(said, "probe"),
        target=_text(said, "target"),
        outcome=_text(said, "outcome"),
        evidence=_text(said, "evidence"),
        message=_text(said, "message"),
        revision=_text(said, "revision"),
        device=_text(said, "device"),
        torch=_text(said, "torch"),
        history=block.history,
        line=document.line_number(block.span.start),
        version=_version(said.get("probe")),
        is_dirty="with uncommitted changes" in _written(said, "revision"),
        was_found=_text(said, "outcome") == "reproduced" or FOUND_BEFORE in _written(said, "outcome"),
        python=_text(said, "python"),
        law=_text(said, "law"),
        measurements=tuple(_measured(tables.get(_MEASUREMENT))),
        checks=tuple(_checks(tables.get(_RUN))),
        measurements_at_fix=tuple(_measured(tables.get(AT_FIX))),
        severity=_text(said, "proposed severity").partition(":")[0].strip("`"),
    )


def _tables(document: Document, block: EvidenceBlock) -> dict[str, Table]:
    """The block's tables by the first word of their headers; of several the first."""
    found: dict[str, Table] = {}
    for part in blocks_of(document.data, block.span, document.scan.hidden):
        if isinstance(part, Table) and part.header is not None and part.header.texts:
            found.setdefault(part.header.texts[0], part)
    return found


def _text(said: dict[str, Field], label: str) -> str:
    return said[label].text if label in said else ""


def _written(said: dict[str, Field], label: str) -> str:
    return said[label].written if label in said else ""


def _version(row: Field | None) -> int:
    found = _VERSION.search(row.written) if row is not None else None
    return int(found[1]) if found else 0


def _measured(table: Table | None) -> Iterator[Measured]:
    for texts in _cells(table, _MEASURED_CELLS):
        name, value, unit, case, evidence = texts[:_MEASURED_CELLS]
        yield Measured.from_cells(name.strip("`"), value, unit, case, evidence)


def _checks(table: Table | None) -> Iterator[CheckedRun]:
    for texts in _cells(table, _RUN_CELLS):
        role, outcome, revision, version, law = texts[:_RUN_CELLS]
        found = _REVISION.fullmatch(revision)
        yield CheckedRun(
            role=role.removesuffix(AS_FOUND).strip(),
            outcome=outcome.strip("`"),
            revision=found["revision"] if found else "",
            is_dirty=bool(found and found["dirty"]),
            version=int(version) if re.fullmatch(r"[0-9]{1,6}", version) else 0,
            law=law.strip("`"),
            is_as_found=role.endswith(AS_FOUND),
        )


def _cells(table: Table | None, least: int) -> Iterator[tuple[str, ...]]:
    rows: tuple[Row, ...] = table.rows if table is not None else ()
    return (row.texts for row in rows if len(row.texts) >= least)
