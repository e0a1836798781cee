"""A run as a table in CSV, a line for each check."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from auditkit.model.runs.run import Run
from auditkit.model.text import inert_line
from auditkit.reports.findings import findings_of, places_of, standings_of

COLUMNS = (
    "severity", "outcome", "baseline", "probe", "target", "file", "line", "function", "evidence", "device", "ticket",
    "message", "fingerprint",
)  # fmt: skip
# What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@")


def run_csv(run: Run, prefix: str = "") -> bytes:
    """RFC 4180 in UTF-8 with a heading: findings first, the worst of them first, then every other result.

    A cell that a spreadsheet would compute begins with a quote.
    """
    found, places, standings = findings_of(run), places_of(run, prefix), standings_of(run)
    shown = set(map(id, found))
    rows: list[Sequence[object]] = [COLUMNS]
    for each in (*found, *(each for each in run.results if id(each) not in shown)):
        place, standing = places[each.fingerprint], standings[each.fingerprint]
        rows.append((
            each.severity, each.outcome, standing.kind, each.probe, each.target, place.file, place.line,
            place.function, each.evidence, each.device, standing.ticket, each.message, each.fingerprint,
        ))  # fmt: skip
    return csv_bytes(rows)


def csv_bytes(rows: Sequence[Sequence[object]]) -> bytes:
    """RFC 4180 in UTF-8; None is an empty cell, and a cell that a spreadsheet would compute begins with a quote."""
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([_cell("" if cell is None else str(cell)) for cell in row])
    return text.getvalue().encode("utf-8")


def _cell(text: str) -> str:
    text = inert_line(text)
    return f"'{text}" if text.startswith(_FORMULA) else text
