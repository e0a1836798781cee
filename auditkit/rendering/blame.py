"""What a finding says of the code: the statement that it is about, what that does, and what single lines cost."""

from __future__ import annotations

from auditkit.model.runs.measurement import CodeExcerpt, Measurement
from auditkit.model.runs.run import Finding, ProbeResult
from auditkit.model.runs.severity import Breaks
from auditkit.model.units import format_value
from auditkit.rendering import markdown

COSTS = {"live_at_peak": "{}x of the gradients' bytes at the peak", "syncs_at_line": "{} waits for the device"}
"""What a measurement of a single line tells of it."""

_LONGEST_CODE = 100
_MOST_LINES = 5
_LEAST_SHARE = 0.05
"""Of the dearest line's cost: what is less is noise beside it."""


def statement_text(finding: Finding) -> str:
    """`Line 158, ``total += norm.item()``, waits for the device most often.`; "" where no line is known."""
    result = finding.result
    if result.location is None or not result.location.line:
        return ""
    if result.statement is None:
        return _of_definition(result)
    first, last = result.statement.first, result.statement.last
    place = f"Line {first}" if first == last else f"The statement in lines {first}-{last}"
    code = _code(result.excerpt, first, last)
    return f"{place}{f', {markdown.code(code)},' if code else ''} {_does(finding)}."


def _does(finding: Finding) -> str:
    if finding.result.breaks is Breaks.STOPS:
        return "raises"
    return markdown.line(finding.probe.statement_does) or "is the first to go wrong"


def _of_definition(result: ProbeResult) -> str:
    location = result.location
    if location is None or result.is_of_source:
        return ""
    name = markdown.code(f"{location.function}()") if location.function else "the target"
    return f"{name}, from line {location.line} on: no single statement of it is to blame."


def line_costs(result: ProbeResult) -> list[str]:
    """What each of several lines costs, the dearest first: `line 257, ``zeros.sum()``: 2x of the gradients' bytes`."""
    costs = [one for one in result.measurements if one.name in COSTS and "line" in one.case]
    costs = [one for one in costs if one.value >= _LEAST_SHARE * costs[0].value]
    if len(costs) < 2:
        return []
    return [_cost(one, result) for one in costs[:_MOST_LINES]]


def _cost(one: Measurement, result: ProbeResult) -> str:
    file, _, number = str(one.case["line"]).rpartition(":")
    own = result.location is not None and file == result.location.file
    place = f"line {number}" if own else f"line {number} of {markdown.code(file)}"
    code = _code(result.excerpt, int(number), int(number)) if own and number.isdigit() else ""
    at = ", ".join(f"{key}={format_value(one.case[key])}" for key in ("tensors", "dtype") if key in one.case)
    return (
        f"{place}{f', {markdown.code(code)}' if code else ''}: {COSTS[one.name].format(format_value(one.value))} ({at})"
    )


def _code(excerpt: CodeExcerpt | None, first: int, last: int) -> str:
    """The lines of a statement as one, where the excerpt has them and they are short."""
    if excerpt is None or not excerpt.first_line <= first <= last <= excerpt.last_line:
        return ""
    lines = excerpt.lines[first - excerpt.first_line : last - excerpt.first_line + 1]
    text = " ".join(line.strip() for line in lines)
    return text if len(text) <= _LONGEST_CODE else ""
