"""A run in short: what reproduced, what has no result, and the file with the whole run."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import Any

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.reports.findings import Standing, standings_of

MOST_FINDINGS = 50
_LONGEST = 300


def run_brief(run: Run, whole: PurePath) -> dict[str, Any]:
    """The run's findings, the worst first and at most 50, `more` counting the others; `whole` is the file of all."""
    found = sorted((result for result in run.results if result.severity), key=lambda result: str(result.severity))
    standings = standings_of(run)
    silent = Counter(
        (result.outcome.value, result.message[:_LONGEST])
        for result in run.results
        if result.outcome in (Outcome.ERROR, Outcome.UNAVAILABLE)
    )
    return {
        "schema_version": 1,
        "run": run.to_json()["run"],
        "summary": dict(run.summary),
        "remembered": sum(result.remembered for result in run.results),
        "findings": [_finding(result, standings[result.fingerprint]) for result in found[:MOST_FINDINGS]],
        "more": max(0, len(found) - MOST_FINDINGS),
        "unanswered": [
            {"outcome": outcome, "message": message, "count": count}
            for (outcome, message), count in silent.most_common(MOST_FINDINGS)
        ],
        "notes": [note[:_LONGEST] for note in run.notes[:MOST_FINDINGS]],
        "whole": str(whole),
    }


def _finding(result: ProbeResult, standing: Standing) -> dict[str, Any]:
    place = result.location
    return {
        "severity": str(result.severity),
        "probe": result.probe,
        "target": result.target,
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
        "message": result.message[:_LONGEST],
        "evidence": result.evidence.value if result.evidence is not None else None,
        "ticket": standing.ticket,
        "fingerprint": result.fingerprint,
    }
