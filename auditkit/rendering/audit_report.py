"""An audit report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from auditkit.model.enums import Evidence
from auditkit.model.module_page import Flow, Importer, ImporterKind, ModulePage, NameUse, Way
from auditkit.model.runs.measurement import Measurement, pivots
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted
from auditkit.model.units import format_value
from auditkit.rendering import markdown
from auditkit.rendering.deciding import case_text
from auditkit.rendering.environment import render
from auditkit.rendering.evidence import excerpt_text, measured_rows
from auditkit.rules.reports.audit import count_labels, uncalled_targets
from auditkit.rules.reports.audit_parts import Answer, AuditReport, Item
from auditkit.rules.reports.words import Horizon, in_words

MOST_ROWS = 8
"""Rows of one table; how many more the run holds is said."""

LONGEST_CASE = 40
"""Characters of one value of a case, such as what was raised."""

MOST_PLACES = 3

MOST_FLOWS = 20
"""Flows of one module; a library of helpers has hundreds, and `--json` has them all."""


@dataclass(frozen=True)
class Table:
    """Texts of a table, not yet escaped, and how many rows were left out."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0


def render_audit_report(report: AuditReport) -> bytes:
    """The whole document; ends with a newline."""
    return render(
        "audit_report.md.j2",
        filters={
            "target": short_target if len(report.modules) == 1 else str,
            "counted": counted,
            "excerpt": excerpt_text,
            "evidence_words": evidence_words,
            "tables": tables_of,
            "imports": _imports,
            "usage": usage_text,
            "flow_text": flow_text,
        },
        report=report,
        files=", ".join(map(markdown.code, report.files)) or "none",
        targets=", ".join(map(markdown.code, report.targets)),
        key_issues=[issue for issue in report.issues if issue.severity in Horizon.IMMEDIATE.severities],
        labels=count_labels(report.sections),
        label=in_words,
        next_number=len(report.sections) + 1,
        uncalled={page.name: uncalled_targets(report.targets, page) for page in report.modules},
    )


def evidence_words(answer: Answer) -> str:
    """By which evidence an answer stands: `measured on cpu, partly extrapolated`."""
    result = answer.result
    if result.is_of_source:
        return "read from the source"
    if result.evidence is Evidence.SIMULATED or result.device == "simulated":
        words = "simulated: CPU values behind a pretended CUDA device"
    else:
        words = f"{result.evidence.value if result.evidence else 'not measured'} on {result.device}"
    is_extrapolated = any(measurement.evidence is Evidence.EXTRAPOLATED for measurement in result.measurements)
    return f"{words}, partly extrapolated" if is_extrapolated else words


def tables_of(item: Item) -> list[Table]:
    """What was measured: of each probe the first target's figures, by the values of their cases that differ."""
    firsts: dict[str, Answer] = {}
    for answer in item.answers:
        firsts.setdefault(answer.result.probe, answer)
    return [table for answer in firsts.values() if not answer.result.is_of_source for table in _tables(answer)]


def _tables(answer: Answer) -> Iterator[Table]:
    where = f"{markdown.code(answer.result.probe)}, {evidence_words(answer)}"
    measured = answer.result.measurements
    found = pivots(measured)
    units = {measurement.name: measurement.unit for measurement in measured}
    for pivot in found:
        head = (f"{pivot.side} \\ {pivot.top}", *pivot.columns)
        rows = tuple((name, *cells) for name, cells in pivot.rows)
        caption = f"{markdown.code(pivot.name)} in {markdown.line(units[pivot.name])}, {where}:"
        yield Table(caption, head, rows[:MOST_ROWS], len(rows[MOST_ROWS:]))
    taken = {pivot.name for pivot in found}
    rest = [one for one in measured if one.name not in taken]
    series, single = _split(rest)
    yield from (_series(measurements, key, where) for key, measurements in series.items())
    if single:
        yield _list(single, where)


def _split(measurements: Sequence[Measurement]) -> tuple[dict[str, list[Measurement]], list[Measurement]]:
    """Measurements whose cases differ in one value, by that value's name; and the others."""
    by_name: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        by_name.setdefault(measurement.name, []).append(measurement)
    series: dict[str, list[Measurement]] = {}
    single: list[Measurement] = []
    for taken in by_name.values():
        keys = [key for key in taken[0].case if len({_value(one, key) for one in taken}) > 1]
        fits = len(keys) == 1 and len({_value(one, keys[0]) for one in taken}) == len(taken)
        if fits and all(len(_value(one, keys[0])) <= LONGEST_CASE for one in taken):
            series.setdefault(keys[0], []).extend(taken)
        else:
            single += taken
    return series, single


def _series(measurements: Sequence[Measurement], top: str, where: str) -> Table:
    """Names down the side, the one value that their cases differ in along the top."""
    units = {one.name: one.unit for one in measurements}
    columns = list(dict.fromkeys(_value(one, top) for one in measurements))
    cells = {(one.name, _value(one, top)): _cell(one) for one in measurements}
    rows = tuple(
        (f"{name} ({unit})", *(cells.get((name, column), "-") for column in columns)) for name, unit in units.items()
    )
    return Table(f"{where}:", (f"by {top}", *columns), rows[:MOST_ROWS], len(rows[MOST_ROWS:]))


def _value(measurement: Measurement, key: str) -> str:
    return case_text({key: measurement.case.get(key)}).partition("=")[2]


def _cell(measurement: Measurement) -> str:
    value = format_value(measurement.value, measurement.unit)
    return f"{value} extrapolated" if measurement.evidence is Evidence.EXTRAPOLATED else value


def _list(measurements: Sequence[Measurement], where: str) -> Table:
    """A row for each measurement, those that read the same once."""
    shown = (replace(one, case=_short_case(one.case)) for one in measurements)
    rows = tuple(dict.fromkeys(measured_rows(shown)))
    head = ("Measurement", "Value", "Unit", "Case", "Evidence")
    return Table(f"{where}:", head, rows[:MOST_ROWS], len(rows[MOST_ROWS:]))


def _short_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """A case without its device, which the caption names, and with long texts cut."""
    return {key: _short(value) for key, value in case.items() if key != "device"}


def _short(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > LONGEST_CASE
    return f"{value[:LONGEST_CASE]}..." if is_long else value


def _imports(importer: Importer) -> str:
    """The imported names as a cell."""
    return ", ".join(markdown.code(use.name) if use.name else "the module" for use in importer.uses)


def usage_text(importer: Importer) -> str:
    """What a file does with what it imports, as a cell: where it calls what, or how many tests use it."""
    if importer.kind is ImporterKind.TEST:
        text = counted(importer.tests, "test")
        return f"{text}, property-based" if importer.is_property_based else text
    if importer.kind is ImporterKind.PACKAGE and not any(use.mentions for use in importer.uses):
        return "exported"
    return "; ".join(map(_use_text, importer.uses))


def _use_text(use: NameUse) -> str:
    name = markdown.code(use.name) if use.name else "the module"
    calls = [one for one in use.mentions if one.way is Way.CALLED]
    if calls:
        places = [f"{_function(one.function)} (line {one.line})" for one in calls]
        return f"{name} called in {_shortened(places)}"
    if not use.mentions:
        return f"{name} not used"
    if all(one.way is Way.ANNOTATION for one in use.mentions):
        return f"{name} named in annotations only"
    lines = [str(one.line) for one in use.mentions if one.way is Way.NAMED]
    return f"{name} named in line {_shortened(lines)}"


def _function(name: str) -> str:
    return markdown.code(f"{name}()") if name else "the module itself"


def _shortened(parts: Sequence[str]) -> str:
    shown = ", ".join(parts[:MOST_PLACES])
    return f"{shown} and {len(parts) - MOST_PLACES} more" if len(parts) > MOST_PLACES else shown


def flow_text(page: ModulePage) -> str:
    """The flows as lines, other files' first: the caller, then its steps in the order of lines."""
    shown = [_flow_text(flow) for flow in page.flows[:MOST_FLOWS]]
    more = len(page.flows) - MOST_FLOWS
    return "\n\n".join([*shown, *([f"and {counted(more, 'more function')}"] if more > 0 else [])])


def _flow_text(flow: Flow) -> str:
    heads = {"call": "", "wait": "waits: ", "by_hand": ""}
    lines = [f"  -> {heads[step.kind]}{step.text}  [line {step.line}]" for step in flow.steps]
    callers = f"  <- {_shortened(flow.callers)}" if flow.callers else ""
    if not flow.callers and "." not in flow.function:
        callers = "  (no caller in the checkout's own code)"
    return "\n".join([f"{flow.file}:{flow.function}{callers}", *lines])
