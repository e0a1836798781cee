"""A finding as the Markdown of its ticket, and the ticket that a reader will find in it."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from auditkit.model.enums import Evidence
from auditkit.model.ids import TicketId, agent_name, id_parts
from auditkit.model.measurement import Location, Measurement
from auditkit.model.probe import CATEGORIES
from auditkit.model.run import BUNDLED, Finding
from auditkit.model.text import inert, inert_line
from auditkit.model.ticket import LineRange, Status, Ticket
from auditkit.model.units import format_value
from auditkit.rendering import markdown
from auditkit.rendering.environment import render

REVIEWERS = ("DRL Specialist", "PyTorch Specialist", "Code Review Specialist")
"""Whose cross-reviews a new ticket asks for."""


@dataclass(frozen=True)
class MeasuredRow:
    """One row of the measured table, its texts not yet escaped."""

    name: str
    value: str
    unit: str
    case: str
    evidence: str


def ticket_of(
    finding: Finding,
    ticket_id: TicketId,
    today: datetime.date,
    domain: str = "",
) -> Ticket:
    """What `render_ticket` with the same arguments will say, as a reader of tickets reads it."""
    result = finding.result
    severity = result.severity or finding.probe.severity
    location = _location(finding)
    first, last = _line_range(finding)
    batch, code, _ = id_parts(ticket_id)
    return Ticket(
        id=ticket_id,
        title=markdown.line(f"{_short_target(result.target)}: {finding.probe.title}"),
        severity=severity,
        severity_written=severity.value,
        status=Status.OPEN,
        status_written=Status.OPEN.value,
        batch=batch,
        agent=agent_name(code),
        domains=(inert_line(domain),) if inert_line(domain) else (),
        assignee="",
        created=today.isoformat(),
        updated=today.isoformat(),
        files=(inert_line(location.file),) if inert_line(location.file) else (),
        lines_written=f"`{_lines_text(first, last)}`" if first else "",
        lines=(LineRange("", first, last),) if first else (),
        function=markdown.code(_function(finding)).replace("\\|", "|"),
        summary=markdown.line(result.message),
        categories=tuple(box for box in CATEGORIES if box in finding.probe.categories),
        fingerprints=(result.fingerprint,),
        path=PurePath(f"batch{batch}") / f"{ticket_id}.md",
    )


def render_ticket(
    finding: Finding,
    ticket_id: TicketId,
    today: datetime.date,
    domain: str = "",
    command: str = "",
    related: Sequence[str] = (),
) -> bytes:
    """The whole file of a new ticket, in the look of `templates/ticket.md.j2`.

    `command` is what the user ran, for the appendix; `related` are lines such as `B7-PT-02: same code`.
    """
    return render(
        "ticket.md.j2",
        ticket=ticket_of(finding, ticket_id, today, domain),
        probe=finding.probe,
        result=finding.result,
        boxes=CATEGORIES,
        excerpt=_excerpt_text(finding),
        evidence_block=render_evidence(finding).decode().rstrip("\n"),
        check_command=check_command(finding),
        command=inert_line(command),
        run_id=finding.run_id,
        reviewers=REVIEWERS,
        related=tuple(related),
    )


def render_evidence(finding: Finding, history: Iterable[str] = ()) -> bytes:
    """The machine-written block with both its markers; `history` keeps lines of earlier blocks."""
    return render(
        "evidence.md.j2",
        probe=finding.probe,
        result=finding.result,
        environment=finding.environment,
        caveats=_caveats(finding),
        severity=finding.result.severity or finding.probe.severity,
        evidence=_evidence(finding),
        location=_location_text(finding.result.location),
        rows=measured_rows(finding.result.measurements),
        history=tuple(inert_line(entry) for entry in history),
    )


def check_command(finding: Finding) -> str:
    """The command that asks the same question again, of the checkout as it is then: without the revision."""
    target = finding.target.command_words() if finding.target else ["--target", finding.result.target]
    if finding.environment.checkout == BUNDLED:
        words = ["auditkit", "audit", "--probe", finding.result.probe, *target[:2]]
    else:
        checkout = finding.source or finding.environment.checkout or "."
        words = ["auditkit", "probe", "run", finding.result.probe, "--checkout", checkout, *target]
    return " ".join(shlex.quote(inert_line(word)) for word in words)


def measured_rows(measurements: Iterable[Measurement]) -> tuple[MeasuredRow, ...]:
    """The measurements as texts for a table."""
    return tuple(
        MeasuredRow(
            measurement.name,
            _value_text(measurement.value, measurement.unit),
            measurement.unit,
            case_text(measurement.case),
            measurement.evidence.value,
        )
        for measurement in measurements
    )


def case_text(case: Mapping[str, Any]) -> str:
    """A measurement's case as `dtype=float32, tensors=64`."""
    return ", ".join(f"{name}={_value_text(value, '')}" for name, value in case.items())


def _value_text(value: Any, unit: str) -> str:
    # A worker's answer may hold a list or a mapping where a number is expected; it is shown, not hidden.
    if value is None or isinstance(value, bool | int | float | str):
        return format_value(value, unit)
    return str(value)


def _caveats(finding: Finding) -> tuple[str, ...]:
    """What a reader must know before believing a number, first lines of the evidence."""
    result = finding.result
    caveats = []
    if _evidence(finding) is Evidence.SIMULATED or result.device == "simulated":
        caveats.append("**Simulated:** CPU values behind a pretended CUDA device; no GPU ran this.")
    elif (result.device or finding.environment.device) == "cpu":
        caveats.append("**Reproduced on CPU only:** no number here comes from a GPU.")
    if any(measurement.evidence is Evidence.EXTRAPOLATED for measurement in result.measurements):
        caveats.append("**Partly extrapolated:** rows marked so come from a fit, not from a measurement.")
    return tuple(caveats)


def _evidence(finding: Finding) -> Evidence:
    return finding.result.evidence or Evidence.MEASURED


def _short_target(target: str) -> str:
    """`collect_seed_gradients` of `package.module:collect_seed_gradients`."""
    return target.rpartition(":")[2] or target


def _function(finding: Finding) -> str:
    location = finding.result.location
    name = (location.function if location else "") or _short_target(finding.result.target)
    name = inert_line(name)
    return f"{name}()" if name and not name.endswith(")") else name


def _location(finding: Finding) -> Location:
    result = finding.result
    if result.location is not None:
        return result.location
    if result.excerpt is not None:
        return Location(result.excerpt.file, result.excerpt.first_line)
    return Location("", 0)


def _line_range(finding: Finding) -> tuple[int, int]:
    excerpt = finding.result.excerpt
    if excerpt is not None and excerpt.lines:
        return excerpt.first_line, excerpt.last_line
    line = _location(finding).line
    return line, line


def _lines_text(first: int, last: int) -> str:
    return f"{first}-{last}" if last > first else str(first)


def _location_text(location: Location | None) -> str:
    if location is None:
        return ""
    place = markdown.code(f"{location.file}:{location.line}")
    return f"{place} in {markdown.code(location.function)}" if inert_line(location.function) else place


def _excerpt_text(finding: Finding) -> str:
    """The code evidence with the line that says where it was cut."""
    excerpt = finding.result.excerpt
    if excerpt is None or not excerpt.lines:
        return ""
    first, last = excerpt.first_line, excerpt.last_line
    head = f"# Lines {first}-{last}" if last > first else f"# Line {first}"
    lines = [inert(text).replace("\n", "\\n") for text in excerpt.lines]
    return "\n".join([head, *lines])
