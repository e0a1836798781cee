"""The results of a run in the order of every format, each with its place in the repository and its ticket."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, Run

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: in (?P<function>.+))?")


@dataclass(frozen=True)
class Row:
    """A result: `place` is a line of the repository; `standing` is known, new or minor, "" without a baseline."""

    result: ProbeResult
    place: Location
    standing: str = ""
    ticket: str = ""

    @property
    def is_finding(self) -> bool:
        return self.result.outcome is Outcome.REPRODUCED


def rows_of(run: Run, prefix: str = "") -> list[Row]:
    """The findings, the worst first and each fingerprint once, then every other result; `prefix` leads to the checkout.

    A finding of torch is at a line that calls torch; one without a line at its function, else at its module's first.
    """
    calls = {reading.target.call: reading.target.places for reading in run.targets if reading.target.places}
    found = {each.call: Location(each.file, each.line) for each in run.candidates}
    known = run.baseline
    tracked = {one.fingerprint: ("known", one.ticket) for one in (known.known if known else ())}
    tracked |= {one.fingerprint: ("new", one.ticket) for one in (known.new if known else ())}
    rows: dict[object, Row] = {}
    for result in run.results:
        called = _PLACE.fullmatch(calls[result.target][0]) if result.target in calls else None
        module = result.target.partition(":")[0]
        file = module if module.endswith(".py") else f"{module.replace('.', '/') or 'unknown'}.py"
        place = result.location or found.get(result.target) or Location(file, 1)
        if called is not None:
            place = Location(called["file"], int(called["line"]), called["function"] or "")
        is_finding = result.outcome is Outcome.REPRODUCED
        standing, ticket = tracked.get(result.fingerprint, ("minor" if known and is_finding else "", ""))
        there = Location(f"{prefix}{place.file}", max(place.line, 1), place.function)
        row = Row(result, there, standing, result.ticket or ticket)
        rows.setdefault(result.fingerprint if is_finding else id(result), row)
    return sorted(rows.values(), key=_rank)


def probe_of(result: ProbeResult, probes: Mapping[str, ProbeInfo]) -> ProbeInfo:
    """The probe of a result; one whose definition is not here keeps its id and its severity."""
    title = f"{result.probe} (this probe's definition is not known here)"
    scope = "source" if result.is_of_source else "target"
    unknown = ProbeInfo(result.probe, result.probe_version, title, result.severity or Severity.P4, scope=scope)
    return probes.get(result.probe, unknown)


def _rank(row: Row) -> tuple[bool, str, str, int, str]:
    if not row.is_finding:
        return True, "", "", 0, ""
    place = row.result.location or Location("", 0)
    return False, row.result.severity or "P9", place.file, place.line, row.result.fingerprint
