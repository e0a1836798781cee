"""Findings as GitLab's code quality report, which a merge request shows beside the lines it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditkit.model.enums import Severity
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Run
from auditkit.model.text import inert_line, shortened
from auditkit.reports.findings import findings_of, places_of

_SEVERITIES = {
    Severity.P0: "blocker",
    Severity.P1: "critical",
    Severity.P2: "major",
    Severity.P3: "minor",
    Severity.P4: "info",
}
_LONGEST = 1000


def run_gitlab(run: Run, probes: Mapping[str, ProbeInfo], prefix: str = "") -> list[dict[str, Any]]:
    """Return the findings, the worst first. The format has no entry for a check without a result: the exit code has.

    GitLab takes paths from the top of the repository, from which `prefix` leads to the checkout.
    """
    places, titles = places_of(run, prefix), {probe.id: probe.title for probe in probes.values()}
    return [
        {
            "description": shortened(inert_line(f"{titles.get(each.probe, each.probe)}: {each.message}"), _LONGEST),
            "check_name": inert_line(each.probe),
            "fingerprint": inert_line(each.fingerprint),
            "severity": _SEVERITIES[each.severity or Severity.P4],
            "location": {
                "path": inert_line(places[each.fingerprint].file),
                "lines": {"begin": places[each.fingerprint].line},
            },
        }
        for each in findings_of(run)
    ]
