"""Lines that every report of a run is made of: tables that fit a terminal, readings, what has no answer."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditkit.model.runs.measurement import Pivot
    from auditkit.model.runs.run import ProbeResult, TargetReading

WIDTH = 100
_GAP = "  "


def columns_of(rows: Sequence[Sequence[str]], indent: str = "") -> list[str] | None:
    """The rows as aligned lines, None where they do not fit in 100 columns."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = [indent + _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines = [line.rstrip() for line in lines]
    return lines if max(map(len, lines)) <= WIDTH else None


def measured_tables(result: ProbeResult, label: str = "") -> list[str]:
    """What the probe measured over two values of its cases, such as dtype and elements, as lines."""
    from auditkit.model.runs.measurement import pivots

    lines = []
    for pivot in pivots(result.measurements):
        lines.append(f"  {result.probe}{label}: {pivot.name} by {pivot.side} and {pivot.top}")
        lines += _table(pivot)
    return lines


def _table(pivot: Pivot) -> list[str]:
    heads = ("", *pivot.columns)
    rows = [(name, *cells) for name, cells in pivot.rows]
    aligned = columns_of([heads, *rows], "    ")
    if aligned is not None:
        return aligned
    lines = []
    for name, cells in pivot.rows:
        listed = ", ".join(f"{cell} at {column}" for column, cell in zip(pivot.columns, cells, strict=True))
        lines += textwrap.wrap(f"{name}: {listed}", WIDTH, initial_indent="    ", subsequent_indent="      ")
    return lines


def place_and_ticket(result: ProbeResult) -> str:
    """Where a finding stands, by what evidence, and what was done to its ticket."""
    where = f"{result.location.file}:{result.location.line}" if result.location else "no line"
    evidence = "read" if result.is_of_source else result.evidence.value if result.evidence else ""
    return f"{where}  {evidence}" + (f"  {result.ticket} {result.ticket_action}" if result.ticket else "")


def without_answer(results: list[ProbeResult]) -> list[str]:
    """Errors and missing devices, each reason once with the probes that it stopped, and the targets if several."""
    stopped: dict[str, list[ProbeResult]] = {}
    causes: dict[str, str] = {}
    for result in results:
        if result.outcome.value in ("error", "unavailable"):
            reason = f" ({result.reason.value})" if result.reason else ""
            stopped.setdefault(result.message, []).append(result)
            causes[result.message] = f"{result.outcome.value}{reason}"
    lines = []
    for message, without in stopped.items():
        probes, targets = ({getattr(result, name) for result in without} for name in ("probe", "target"))
        named = without[0].probe if len(probes) == 1 else f"{len(probes)} probes"
        where = f" on {len(targets)} targets" if len(targets) > 1 else ""
        lines.append(f"{causes[message]}  {named}{where}: {message}")
    return lines


def how_it_is_read(reading: TargetReading) -> str:
    """What trying the target showed: how it is fed, what it returns, which field is which."""
    target = reading.target
    takes = target.takes.value if target.takes else "nothing known"
    parts = [target.contract.value if target.contract else "no contract", f"takes {takes}"]
    parts += [f"set up by {target.setup}"] if target.setup else []
    parts += [f"finished by {target.finish}"] if target.finish else []
    parts += [f"{name}={value}" for name, value in target.arguments.items()]
    roles = ", ".join(f"{role}: {path or 'the answer'}" for role, path in reading.roles.items())
    return ", ".join(parts) + f"; returns {reading.answer or 'nothing'}" + (f" ({roles})" if roles else "")
