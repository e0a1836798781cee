"""An audit report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from auditkit.model.enums import Evidence, Severity
from auditkit.model.module_page import Flow, Importer, ImporterKind, ModulePage, NameUse, Way
from auditkit.model.runs.measurement import CodeExcerpt
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted
from auditkit.rendering import markdown
from auditkit.rendering.deciding import in_one_line
from auditkit.rendering.environment import render
from auditkit.rendering.evidence import excerpt_text
from auditkit.rules.reports.audit import count_labels, uncalled_targets
from auditkit.rules.reports.audit_parts import Answer, AuditReport, Item
from auditkit.rules.reports.words import Horizon, Label, in_words

_GRAVE = (Severity.P0, Severity.P1, Severity.P2)

_MOST_LINES, _LINES_BEFORE = 6, 3
"""Lines of code of one finding, and how many of them stand before the one that is blamed."""

_HEADS = {
    Label.OK: "OK: asked, and not reproduced",
    Label.NOTE: "NOTE: does not apply, or could not be asked",
    Label.ERROR: "ERROR: no answer",
}

MOST_PLACES = 3

MOST_FLOWS = 20
"""Flows of one module; a library of helpers has hundreds, and `--json` has them all."""


def render_audit_report(report: AuditReport) -> bytes:
    """The whole document; ends with a newline."""
    return render(
        "audit_report.md.j2",
        filters={
            "target": short_target if len(report.modules) == 1 else str,
            "counted": counted,
            "code_text": code_text,
            "numbers_of": _numbers_of,
            "evidence_words": evidence_words,
            "by_probe": by_probe,
            "figures": figures,
            "probes_of": _probes_of,
            "targets_of": _targets_of,
            "said": _said,
            "imports": _imports,
            "usage": usage_text,
            "flow_text": flow_text,
        },
        report=report,
        files=", ".join(map(markdown.code, report.files)) or "none",
        targets=", ".join(map(markdown.code, report.targets)),
        key_issues=[issue for issue in report.issues if issue.severity in Horizon.IMMEDIATE.severities],
        shown=shown_excerpts(report),
        without_finding=without_finding(report),
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


def by_probe(item: Item) -> list[list[Answer]]:
    """The answers of an item, those of one probe together: several targets lead to its cause."""
    groups: dict[str, list[Answer]] = {}
    for answer in item.answers:
        groups.setdefault(answer.result.probe, []).append(answer)
    return list(groups.values())


def figures(result: ProbeResult) -> str:
    """What was measured and decided, in one line; of what was read the message has it."""
    return "" if result.is_of_source else in_one_line(result)


def shown_excerpts(report: AuditReport) -> set[str]:
    """The items that show their code: the first of each graver cause, where the code is the checkout's."""
    items = [item for page in report.sections for item in page.items]
    # Somebody else's function no maintainer of the checkout can mend.
    own = [item for item in items if not any(answer.result.owner for answer in item.answers)]
    grave = {item.number for item in own if item.severity in _GRAVE}
    return {
        item.number
        for item in items
        if item.number in grave and not any(other in grave and other < item.number for other in item.see)
    }


def without_finding(report: AuditReport) -> dict[str, list[list[Item]]]:
    """What was asked and reproduced nowhere, by the head of its table: items of the same probes are a row."""
    found: dict[str, dict[str, list[Item]]] = {head: {} for head in _HEADS.values()}
    for item in (item for page in report.sections for item in page.items if item.severity is None and item.answers):
        found[_HEADS[item.label]].setdefault(_probes_of([item]), []).append(item)
    return {head: list(rows.values()) for head, rows in found.items()}


def _numbers_of(items: Sequence[Item]) -> str:
    return ", ".join(item.number for item in items)


def _probes_of(items: Sequence[Item]) -> str:
    return ", ".join(dict.fromkeys(markdown.code(answer.result.probe) for item in items for answer in item.answers))


def _targets_of(items: Sequence[Item]) -> str:
    """The one target, or how many there are: the run's document names them."""
    targets = list(dict.fromkeys(answer.result.target for item in items for answer in item.answers))
    return markdown.code(short_target(targets[0])) if len(targets) == 1 else str(len(targets))


def _said(items: Sequence[Item]) -> str:
    """What all answers say; where they differ the first, with its evidence."""
    first = items[0].answers[0]
    messages = {answer.result.message for item in items for answer in item.answers}
    evidence = f" *({evidence_words(first)})*" if first.result.evidence else ""
    more = "" if len(messages) == 1 else f" (and {len(messages) - 1} other)"
    return f"{first.result.message}{evidence}{more}"


def code_text(excerpt: CodeExcerpt, line: int) -> str:
    """The lines of an excerpt around the one that is blamed, as few as a report shows."""
    first = max(0, min(line - excerpt.first_line - _LINES_BEFORE, len(excerpt.lines) - _MOST_LINES))
    lines = excerpt.lines[first : first + _MOST_LINES]
    skipped = next((number for number, text in enumerate(lines) if text.strip()), 0)
    return excerpt_text(replace(excerpt, first_line=excerpt.first_line + first + skipped, lines=lines[skipped:]))


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
    """The flows as lines, other files' first: the caller, then its steps in the order of their first lines."""
    shown = [_flow_text(flow) for flow in page.flows[:MOST_FLOWS]]
    more = len(page.flows) - MOST_FLOWS
    return "\n\n".join([*shown, *([f"and {counted(more, 'more function')}"] if more > 0 else [])])


def _flow_text(flow: Flow) -> str:
    heads = {"call": "", "wait": "waits: ", "by_hand": ""}
    places: dict[str, list[str]] = {}
    for step in flow.steps:
        places.setdefault(f"{heads[step.kind]}{step.text}", []).append(str(step.line))
    lines = [f"  -> {text}  [line{'s' * (len(at) > 1)} {', '.join(at)}]" for text, at in places.items()]
    callers = f"  <- {_shortened(flow.callers)}" if flow.callers else ""
    if not flow.callers and "." not in flow.function:
        callers = "  (no caller in the checkout's own code)"
    return "\n".join([f"{flow.file}:{flow.function}{callers}", *lines])
