"""Lines that every report of a run is made of: tables that fit a terminal, readings, what has no answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditkit.cli.output import fitted

if TYPE_CHECKING:
    from auditkit.model.runs.measurement import Pivot
    from auditkit.model.runs.run import ProbeResult, TargetReading

WIDTH = 100
_GAP = "  "


def columns_of(rows: Sequence[Sequence[str]], indent: str = "", width: int | None = None) -> list[str] | None:
    """The rows as aligned lines, None where they do not fit in `width`, or in 100 columns."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = [indent + _GAP.join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)) for row in rows]
    lines = [line.rstrip() for line in lines]
    return lines if max(map(len, lines)) <= (width or WIDTH) else None


def measured_tables(result: ProbeResult, width: int | None = None) -> list[str]:
    """What the probe measured over two values of its cases, such as dtype and elements, as lines."""
    from auditkit.model.runs.measurement import pivots

    lines = []
    for pivot in pivots(result.measurements):
        lines.append(f"{result.probe}: {pivot.name} by {pivot.side} and {pivot.top}")
        lines += _table(pivot, width)
    return lines


def _table(pivot: Pivot, width: int | None) -> list[str]:
    heads = ("", *pivot.columns)
    rows = [(name, *cells) for name, cells in pivot.rows]
    aligned = columns_of([heads, *rows], "  ", (width or WIDTH) - len(_GAP))
    if aligned is not None:
        return aligned
    lines = []
    for name, cells in pivot.rows:
        listed = ", ".join(f"{cell} at {column}" for column, cell in zip(pivot.columns, cells, strict=True))
        lines.append(fitted(f"  {name}: {listed}", (width or WIDTH) - len(_GAP)))
    return lines


def without_answer(results: Sequence[ProbeResult]) -> list[str]:
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
    """What trying the target showed, by the options that say otherwise: what it is fed, and what it answers."""
    target = reading.target
    parts = [f"called with {target.takes.value} (--takes)" if target.takes else "no way to call it is known"]
    parts += [f"{name}={value}" for name, value in target.arguments.items()]
    parts += [f"after {target.setup}() (--setup)"] if target.setup else []
    parts += [f"then {target.finish} (--finish)"] if target.finish else []
    roles = ", ".join(f"{path or 'the answer'} is {role}" for role, path in reading.roles.items())
    parts.append(f"answers with {reading.answer or 'nothing'}" + (f": {roles} (--returns)" if roles else ""))
    parts += [f"held to {target.contract.value} (--contract)"] if target.contract else []
    return ", ".join(parts)
