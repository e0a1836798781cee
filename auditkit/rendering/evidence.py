"""The machine-written parts of a ticket: the block of each finding, and the banner above all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.runs.cause import Siblings
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.run import SOURCE_DEVICE, Finding
from auditkit.model.runs.target import short_target
from auditkit.model.text import inert, inert_line
from auditkit.model.tickets.ticket import EvidenceSummary
from auditkit.model.units import format_value
from auditkit.rendering import markdown
from auditkit.rendering.deciding import MOST_DECIDING, case_text, deciding, in_one_line
from auditkit.rendering.environment import render

_PRETENDED = "CPU values behind a pretended CUDA device"
MOST_SIBLINGS = 20
"""Candidates that a ticket lists; how many more there are is said."""


def render_evidence(finding: Finding, history: Iterable[str] = (), above: Sequence[str] = ()) -> bytes:
    """The block of one finding with both its markers.

    `history` keeps lines of earlier blocks, `above` are the fingerprints of the blocks that stand above in
    the file. Where one of them is the same probe's, this block only says that another target has the same
    answer, or of a module what was read there; where there is none, it also lists the same pattern elsewhere.
    """
    result = finding.result
    is_repeated = any(fingerprint.partition("/")[0] == result.probe for fingerprint in above)
    return render(
        "evidence.md.j2",
        probe=finding.probe,
        result=result,
        environment=finding.environment,
        caveats=_caveats(finding),
        severity=_severity(finding),
        evidence=_word(finding, _evidence(finding).value),
        location=_location_text(result.location),
        rows=() if is_repeated and not finding.is_of_module else _rows(finding, result.measurements),
        deciding=() if is_repeated else _rows(finding, deciding(result)),
        in_one_line="" if is_repeated or finding.severity is Severity.P4 else in_one_line(result),
        is_whole=len(result.measurements) <= MOST_DECIDING,
        is_first=not above,
        siblings=() if above or result.siblings is None else sibling_lines(result.siblings),
        is_repeated=is_repeated,
        is_of_module=finding.is_of_module,
        short_target=short_target(result.target),
        device=device_of(finding),
        history=tuple(inert_line(entry) for entry in history),
    )


@dataclass(frozen=True)
class VerifiedBox:
    """What a verification says of one box: its number from 1, its text, the state and why."""

    number: int
    text: str
    state: str
    reason: str


def render_verified(
    runs: Mapping[str, EvidenceSummary],
    measured_at_fix: Iterable[Measurement],
    boxes: Sequence[VerifiedBox],
    notes: Sequence[str] = (),
) -> bytes:
    """The part of a block that says what `ticket verify` ran, what the fix gave, and which boxes that proves.

    `runs` are by their role: `base`, `base as found above` or `fix`.
    """
    rows = measured_rows(measured_at_fix)
    return render("verified.md.j2", runs=runs, rows=rows, boxes=boxes, notes=notes)


def render_banner(devices: Sequence[str]) -> bytes:
    """The block above a ticket's first section: where its numbers come from.

    `devices` are those of its evidence blocks: `cpu`, `simulated`, `cuda` or `source`.
    """
    return render("banner.md.j2", text=_origin(frozenset(devices)))


def _origin(devices: frozenset[str]) -> str:
    elsewhere = devices - {"source"}
    if "cuda" in elsewhere:
        if elsewhere == {"cuda"}:
            return "**Reproduced on a GPU:** its numbers were measured there."
        return "**Reproduced on a GPU and on CPU:** each evidence block names its device."
    if "simulated" in elsewhere:
        return (
            "**Reproduced on CPU only:** device traffic was counted behind a pretended CUDA device; "
            "no number in this ticket comes from a GPU."
        )
    if elsewhere or not devices:
        return "**Reproduced on CPU only:** no number in this ticket comes from a GPU."
    return "**Read from the source:** nothing was run."


def sibling_lines(siblings: Siblings) -> tuple[str, ...]:
    """What is said of the same pattern elsewhere, line by line, as Markdown."""
    head = "**Same pattern elsewhere:**"
    pattern = markdown.code(siblings.pattern)
    if siblings.reason:
        return (f"{head} none is listed{f' for {pattern}' if pattern else ''}: {markdown.line(siblings.reason)}.",)
    code = [place.location for place in siblings.places if not place.is_test]
    tests = [place.location for place in siblings.places if place.is_test]
    places = [f"- {_location_text(place)}" for place in code[:MOST_SIBLINGS]]
    places += [f"- and {len(code) - MOST_SIBLINGS} more"] if len(code) > MOST_SIBLINGS else []
    places += [f"- in tests {len(tests)} times, first at {_place(tests[0])}"] if tests else []
    lines = [f"{head} {pattern}; candidates, unproven until probed.", "", *places]
    if not places:
        lines = [f"{head} none; {pattern} stands nowhere else{' unprobed' if siblings.probed else ''}."]
    if siblings.probed:
        lines += ["", f"Findings of their own in this run: {', '.join(map(_place, siblings.probed))}."]
    return tuple(lines)


def measured_rows(measurements: Iterable[Measurement]) -> tuple[tuple[str, ...], ...]:
    """The measurements as rows of a table, not yet escaped: name, value, unit, case and evidence."""
    return tuple(
        (one.name, format_value(one.value, one.unit), one.unit, case_text(one.case), one.evidence.value)
        for one in measurements
    )


def excerpt_text(excerpt: CodeExcerpt | None) -> str:
    """The code of an excerpt below a line that says where it was cut; "" without any."""
    if excerpt is None or not excerpt.lines:
        return ""
    first, last = excerpt.first_line, excerpt.last_line
    head = f"# Lines {first}-{last}" if last > first else f"# Line {first}"
    lines = [inert(text).replace("\n", "\\n") for text in excerpt.lines]
    return "\n".join([head, *lines])


def device_of(finding: Finding) -> str:
    """Where the numbers of a finding come from: `cpu`, `simulated`, `cuda` or `source`."""
    return finding.result.device or finding.environment.device


def _caveats(finding: Finding) -> tuple[str, ...]:
    """What a reader must know before believing a number of this block."""
    result = finding.result
    caveats = []
    if _evidence(finding) is Evidence.SIMULATED or result.device == "simulated":
        how = "plain CPU tensors, counted as a GPU would be asked" if result.device == "cpu" else _PRETENDED
        caveats.append(f"**Simulated:** {how}; no GPU ran this.")
    if any(measurement.evidence is Evidence.EXTRAPOLATED for measurement in result.measurements):
        caveats.append("**Partly extrapolated:** rows marked so come from a fit, not from a measurement.")
    return tuple(caveats)


def _rows(finding: Finding, measurements: Iterable[Measurement]) -> tuple[tuple[str, ...], ...]:
    rows = measured_rows(measurements)
    return tuple((*cells, _word(finding, evidence)) for *cells, evidence in rows)


def _word(finding: Finding, evidence: str) -> str:
    """How a number was obtained: what a probe takes from the source was read, and nothing was measured."""
    return "read" if device_of(finding) == SOURCE_DEVICE else evidence


def _severity(finding: Finding) -> str:
    """What is proposed for what reproduced; nothing else has a severity."""
    if finding.result.outcome is not Outcome.REPRODUCED:
        return ""
    return finding.severity.value


def _evidence(finding: Finding) -> Evidence:
    return finding.result.evidence or Evidence.MEASURED


def _location_text(location: Location | None) -> str:
    if location is None:
        return ""
    function = inert_line(location.function)
    return f"{_place(location)} in {markdown.code(function)}" if function else _place(location)


def _place(location: Location) -> str:
    return markdown.code(f"{location.file}:{location.line}")
