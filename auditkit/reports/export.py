"""Write a run into files: as JSON, SARIF, JUnit, GitLab's code quality report, CSV, and as pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError
from auditkit.files import ensure_writable, write_file
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Run
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.fix.file_change import prefix_of
from auditkit.reports.causes import Sources, without_result
from auditkit.reports.findings import Row, rows_of
from auditkit.reports.formats import run_csv, run_gitlab, run_junit
from auditkit.reports.html.page import html_page
from auditkit.reports.page import markdown_page
from auditkit.reports.run_page import run_page
from auditkit.reports.sarif import run_sarif

_Probes = Mapping[str, ProbeInfo]
_FORMS: Mapping[str, Callable[[Run, _Probes, str], bytes]] = {
    "sarif": lambda run, probes, prefix: json_text(run_sarif(run, probes, prefix)),
    "junit": lambda run, _, prefix: run_junit(run, prefix),
    "gitlab": lambda run, probes, prefix: json_text(run_gitlab(run, probes, prefix)),
    "csv": lambda run, _, prefix: run_csv(run, prefix),
    "html": lambda run, probes, prefix: html_page(run_page(Sources(run, probes, prefix=prefix))),
    "summary": lambda run, probes, prefix: markdown_page(run_page(Sources(run, probes, prefix=prefix))),
}
_MOST_FINDINGS, _LONGEST = 50, 300


def check_outputs(files: Mapping[str, Path], source: Path | None = None) -> None:
    """Refuse what could not be written before anything is measured; `files` are by format, `source` is read.

    Raises BadInputError for a link, folder or device and for a file named twice, StoreConflictError if it cannot be
    written.
    """
    taken = {source.resolve(): "the run itself"} if source is not None else {}
    for form, file in files.items():
        if file.is_symlink() or (file.exists() and not file.is_file()):
            what = "link" if file.is_symlink() else "folder" if file.is_dir() else "device"
            raise BadInputError(f"{file} is a {what}", f"name a file: --{form} FILE")
        other = taken.setdefault(file.resolve(), f"--{form}")
        if other != f"--{form}":
            raise BadInputError(f"--{form} {file}: that is the file of {other}", "name another file")
        ensure_writable(file.parent)


def write_outputs(run: Run, files: Mapping[str, Path], probes: _Probes) -> None:
    """Write the run in every format that `files` names, in place of what was there, each whole or not at all.

    Nothing is written where a format cannot be made. Raises StoreConflictError where a file cannot be written.
    """
    try:
        prefix = prefix_of(parse_checkout(run.environment.checkout))
    except BadInputError:
        prefix = ""  # the checkout of a saved run need not be here
    made = {file: _FORMS[form](run, probes, prefix) for form, file in files.items()}
    for file, data in made.items():
        write_file(file, data)


def save_run(run: Run, file: Path) -> dict[str, Any]:
    """Write the whole run; return it in short: at most 50 findings, `more` of them, and what has no result.

    Raises StoreConflictError.
    """
    write_file(file, json_text(run.to_json()))
    found = [row for row in rows_of(run) if row.result.severity]
    return {
        "schema_version": 1,
        "run": run.to_json()["run"],
        "summary": dict(run.summary),
        "remembered": sum(result.remembered for result in run.results),
        "findings": list(map(_finding, found[:_MOST_FINDINGS])),
        "more": max(0, len(found) - _MOST_FINDINGS),
        "unanswered": [
            {"outcome": those[0].outcome, "message": message[:_LONGEST], "count": len(those)}
            for (_, message), those in list(without_result(run.results).items())[:_MOST_FINDINGS]
        ],
        "notes": [note[:_LONGEST] for note in run.notes[:_MOST_FINDINGS]],
        "whole": str(file),
    }


def _finding(row: Row) -> dict[str, Any]:
    one, place = row.result, row.result.location
    return {
        "severity": one.severity, "probe": one.probe, "target": one.target, "file": place.file if place else None,
        "line": place.line if place else None, "message": one.message[:_LONGEST], "evidence": one.evidence,
        "ticket": row.ticket or None, "fingerprint": one.fingerprint,
    }  # fmt: skip


def json_text(document: Any) -> bytes:
    """Strict JSON in pure ASCII, in which no text can reach a terminal raw."""
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode("ascii")
