"""The figures of a folder as Markdown, for a summary page."""

from __future__ import annotations

from auditkit.rendering.markdown import cell
from auditkit.rules.statistics import Count, Facet, Statistics


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
    statuses = [count.label for count in statistics.by[Facet.STATUS]]
    head = f"| Severity | {' | '.join(map(cell, statuses))} |\n|---|{'---:|' * len(statuses)}\n"
    rows = []
    for severity in (count.label for count in statistics.by[Facet.SEVERITY]):
        counts = (str(statistics.cross.get((severity, status), 0)) for status in statuses)
        rows.append(f"| {cell(severity)} | {' | '.join(counts)} |\n")
    return f"## Severity by status\n\n{head}{''.join(rows)}"
