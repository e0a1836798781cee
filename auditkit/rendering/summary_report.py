"""The summary page of all tickets as Markdown, with bars, and the figures of a folder by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.enums import Severity
from auditkit.model.text import inert_line
from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.rendering.environment import render
from auditkit.rendering.markdown import cell
from auditkit.rules.counting.statistics import Count, Facet, Statistics
from auditkit.rules.reports.summary import SummaryReport
from auditkit.rules.reports.words import MEANINGS, Horizon

BAR_WIDTH = 50
"""Blocks of the longest bar."""


@dataclass(frozen=True)
class CrossTable:
    """Counts of two facets: a column for each value of the second one."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]


def render_summary_report(report: SummaryReport, folder: str, broken: Sequence[BrokenTicket] = ()) -> bytes:
    """The whole page of the tickets of `folder`; `broken` are files that are in no count."""
    return render(
        "summary.md.j2",
        filters={"meaning": meaning, "bars": bars, "levels": horizon_levels},
        report=report,
        statistics=report.statistics,
        by_agent=cross_table(report.by_agent, report.statistics.by[Facet.AGENT]),
        by_batch=cross_table(report.by_batch, report.statistics.by[Facet.STATUS]),
        by_status=cross_table(report.statistics.cross, report.statistics.by[Facet.STATUS]),
        Facet=Facet,
        folder=folder,
        broken=tuple(broken),
    )


def cross_table(cross: Mapping[tuple[str, str], int], counts: Sequence[Count]) -> CrossTable:
    """The pairs as a table with a column for each of `counts`; a pair that does not occur is 0."""
    columns = tuple(one.label for one in counts)
    labels = dict.fromkeys(row for row, _ in cross)
    return CrossTable(columns, tuple((row, tuple(cross.get((row, one), 0) for one in columns)) for row in labels))


def bars(counts: Sequence[Count]) -> str:
    """A line for each count: label, a bar as long as its share of the largest, the number; none for 0."""
    labels = [inert_line(one.label) for one in counts]
    widest, largest = max(map(len, labels)), max(one.count for one in counts)
    return "\n".join(
        f"{label.ljust(widest)} {'█' * max(1, round(BAR_WIDTH * one.count / largest))} {one.count}"
        for label, one in zip(labels, counts, strict=True)
        if one.count
    )


def meaning(label: str) -> str:
    return MEANINGS[Severity(label)] if label in list(Severity) else "Not a severity"


def horizon_levels(horizon: Horizon) -> str:
    """`P0-P1`, or `P2` alone."""
    levels = [level.value for level in horizon.severities]
    return f"{levels[0]}-{levels[-1]}" if len(levels) > 1 else levels[0]


def render_statistics(statistics: Statistics) -> str:
    """Tables of every facet that was counted, and severity by status where both were; ends with a newline."""
    parts = [f"| Metric | Count |\n|--------|------:|\n| Tickets | {statistics.total} |\n"]
    parts += [_table(facet, counts) for facet, counts in statistics.by.items() if counts]
    if statistics.cross and {Facet.SEVERITY, Facet.STATUS} <= set(statistics.by):
        parts.append(_cross(statistics))
    return "\n".join(parts)


def _table(facet: Facet, counts: tuple[Count, ...]) -> str:
    unit = "Votes" if facet is Facet.VERDICT else "Count"
    rows = [f"| {cell(count.label)} | {count.count} | {count.percent:.1f}% |\n" for count in counts]
    head = f"| {facet.value.capitalize()} | {unit} | % |\n|---|---:|---:|\n"
    return f"## By {facet.value}\n\n{head}{''.join(rows)}"


def _cross(statistics: Statistics) -> str:
    table = cross_table(statistics.cross, statistics.by[Facet.STATUS])
    head = f"| Severity | {' | '.join(map(cell, table.columns))} |\n|---|{'---:|' * len(table.columns)}\n"
    rows = [f"| {cell(severity)} | {' | '.join(map(str, counts))} |\n" for severity, counts in table.rows]
    return f"## Severity by status\n\n{head}{''.join(rows)}"
