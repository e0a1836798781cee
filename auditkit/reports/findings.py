"""What every format says of a finding: in which order, where, and under which fingerprint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from auditkit.model.enums import Outcome
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.run import ProbeResult, Run

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: in (?P<function>.+))?")


@dataclass(frozen=True)
class Standing:
    """A finding beside the tickets.

    `kind` is known, new or minor, "" without a baseline; `ticket` is the id of the ticket that tracks the finding.
    """

    kind: str
    ticket: str | None

    def in_words(self) -> str:
        """Return `known, B1-PT-01`, `new`, or "" without a baseline."""
        return ", ".join((self.kind, self.ticket) if self.kind and self.ticket else (self.kind,))


def standings_of(run: Run) -> Mapping[str, Standing]:
    """The standing of each result by fingerprint, as the audit's report counts it."""
    if run.baseline is None:
        return {each.fingerprint: Standing("", each.ticket) for each in run.results}
    kinds = {one.fingerprint: "known" for one in run.baseline.known}
    kinds |= {one.fingerprint: "new" for one in run.baseline.new}
    found = {each.fingerprint for each in run.results if each.outcome is Outcome.REPRODUCED}
    tickets = {one.fingerprint: one.ticket for one in (*run.baseline.known, *run.baseline.new)}
    return {
        each.fingerprint: Standing(
            kinds.get(each.fingerprint, "minor" if each.fingerprint in found else ""),
            each.ticket or tickets.get(each.fingerprint) or None,
        )
        for each in run.results
    }


def findings_of(run: Run) -> list[ProbeResult]:
    """What reproduced, the worst first, each fingerprint once."""
    found = sorted((each for each in run.results if each.outcome is Outcome.REPRODUCED), key=_rank)
    return list({each.fingerprint: each for each in reversed(found)}.values())[::-1]


def places_of(run: Run, prefix: str = "") -> Mapping[str, Location]:
    """By fingerprint the line of the repository that each result is about; `prefix` leads to the checkout.

    Of what is torch's that is a line which calls it; of what has no line, the function's own, else its module's first.
    """
    calls = {reading.target.call: reading.target.places for reading in run.targets if reading.target.places}
    found = {each.call: Location(each.file, each.line) for each in run.candidates}
    places = {}
    for result in run.results:
        place = result.location
        called = _PLACE.fullmatch(calls[result.target][0]) if result.target in calls else None
        if called is not None:
            place = Location(called["file"], int(called["line"]), called["function"] or "")
        place = place or found.get(result.target) or Location(_module_file(result.target), 1)
        places[result.fingerprint] = Location(f"{prefix}{place.file}", max(place.line, 1), place.function)
    return places


def _rank(result: ProbeResult) -> tuple[str, str, int, str]:
    place = result.location or Location("", 0)
    return result.severity or "P9", place.file, place.line, result.fingerprint


def _module_file(target: str) -> str:
    module = target.partition(":")[0]
    return module if module.endswith(".py") else f"{module.replace('.', '/') or 'unknown'}.py"
