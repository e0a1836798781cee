"""A run as CSV, as GitLab's code quality report and as JUnit's XML."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Run
from auditkit.model.text import inert, inert_line, shortened
from auditkit.reports.findings import Row, probe_of, rows_of

COLUMNS = (
    "severity", "outcome", "baseline", "probe", "target", "file", "line", "function", "evidence", "device", "ticket",
    "message", "fingerprint",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula."""
_GITLAB = {
    Severity.P0: "blocker", Severity.P1: "critical", Severity.P2: "major", Severity.P3: "minor", Severity.P4: "info",
}  # fmt: skip
_LONGEST = 1000
_KINDS = {Outcome.REPRODUCED: "failure", Outcome.ERROR: "error", Outcome.NOT_REPRODUCED: ""}


def run_csv(run: Run, prefix: str = "") -> bytes:
    """A line for each result below a heading, findings first."""
    rows: list[Sequence[object]] = [COLUMNS]
    for row in rows_of(run, prefix):
        one, place = row.result, row.place
        rows.append((
            one.severity, one.outcome, row.standing, one.probe, one.target, place.file, place.line, place.function,
            one.evidence, one.device, row.ticket, one.message, one.fingerprint,
        ))  # fmt: skip
    return csv_bytes(rows)


def csv_bytes(rows: Sequence[Sequence[object]]) -> bytes:
    """RFC 4180 in UTF-8; None is an empty cell, and a cell that a spreadsheet would compute begins with a quote."""
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        cells = ("" if cell is None else inert_line(str(cell)) for cell in row)
        writer.writerow([f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells])
    return text.getvalue().encode("utf-8")


def run_gitlab(run: Run, probes: Mapping[str, ProbeInfo], prefix: str = "") -> list[dict[str, Any]]:
    """The findings. The format has no entry for a check without a result: the exit code says it."""
    return [
        {
            "description": shortened(
                inert_line(f"{probe_of(row.result, probes).title}: {row.result.message}"), _LONGEST
            ),
            "check_name": inert_line(row.result.probe),
            "fingerprint": inert_line(row.result.fingerprint),
            "severity": _GITLAB[row.result.severity or Severity.P4],
            "location": {"path": inert_line(row.place.file), "lines": {"begin": row.place.line}},
        }
        for row in rows_of(run, prefix)
        if row.is_finding
    ]


def run_junit(run: Run, prefix: str = "") -> bytes:
    """Each target as a suite, each check that applies as a test.

    A finding is a failure; a check without a result is an error or skipped; so is, with a baseline, a finding that a
    ticket has or that is minor.
    """
    suites: dict[str, list[Row]] = {}
    for row in rows_of(run, prefix):
        if row.result.outcome is not Outcome.NOT_APPLICABLE:
            suites.setdefault(row.result.target, []).append(row)
    top = ET.Element("testsuites")
    for target, rows in suites.items():
        suite = ET.SubElement(top, "testsuite", name=inert_line(target) or "unknown")
        kinds = [_case(suite, row) for row in rows]
        suite.set("tests", str(len(kinds)))
        suite.set("time", f"{sum(row.result.duration_s for row in rows):.3f}")
        for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(kinds.count(kind)))
    ET.indent(top)
    text: str = ET.tostring(top, "unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _case(suite: ET.Element, row: Row) -> str:
    one, said = row.result, row.result.outcome.value.replace("_", " ")
    case = ET.SubElement(suite, "testcase", name=inert_line(one.probe), classname=suite.get("name", ""))
    case.set("time", f"{one.duration_s:.3f}")
    kind = _KINDS.get(one.outcome, "skipped")
    if kind == "failure" and row.standing in ("known", "minor"):
        kind, said = "skipped", f"known, {row.ticket}" if row.ticket else "minor, without a ticket"
    if kind:
        told = ET.SubElement(case, kind, message=inert_line(f"{said}: {one.message}"))
        told.set("type", str(one.severity or one.reason or one.outcome))
        told.text = inert(
            f"{row.place.file}:{row.place.line}\n{one.message}\nfingerprint: {inert_line(one.fingerprint)}\n"
            f"ticket: {row.ticket or 'none'}\nevidence: {one.evidence or 'none'}"
        )
    return kind
