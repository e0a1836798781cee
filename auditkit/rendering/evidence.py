"""A finding's measurements and code as text for reports."""

from __future__ import annotations

from collections.abc import Iterable

from auditkit.model.runs.measurement import CodeExcerpt, Measurement
from auditkit.model.text import inert
from auditkit.model.units import format_value
from auditkit.rendering.deciding import case_text


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
