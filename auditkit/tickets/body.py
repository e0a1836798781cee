"""The text of a ticket that `audit` files: from the findings of one cause to sections and the evidence block."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from auditkit.model.enums import Evidence as EvidenceKind
from auditkit.model.enums import Severity
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import BUNDLED, SOURCE_DEVICE, Finding, ProbeResult
from auditkit.model.runs.target import short_target
from auditkit.model.text import inert, inert_line, shortened
from auditkit.model.ticket import CATEGORY_OF, UNKNOWN, Box, Ticket
from auditkit.model.units import format_value
from auditkit.tickets import markdown
from auditkit.tickets.deciding import case_text, deciding
from auditkit.tickets.document import FIX, REPRODUCE, Document, wrapped
from auditkit.tickets.front_matter import LONGEST_LINE

MOST_LINES, MOST_LINES_OF_ONE = 80, 60
"""Visible lines of a ticket, and of one with a single finding."""
ROW_LIMITS = (8, 5, 3, 1, 0)
"""How many rows and further probes a ticket shows: the first number with which it keeps its limit of lines."""
_MOST_DIFF, _SHORT_DIFF, _MOST_EXCERPT = 24, 14, 9
_LONGEST_TITLE = 88
_LONGEST_CELL = 44
_LINE_NUMBERS = re.compile(
    r",? (?:in|on|at|from) lines? \d[\d, -]*\d?|(?<=\.py):\d+|\blines? \d[\d-]*(?:, \d[\d-]*)*(?:: |,? ?)"
)
_PLACES = frozenset(("line", "loop", "first", "last"))
"""Values of a case that are line numbers."""
_SIZES = (("10M", 10_000_000), ("100M", 100_000_000), ("1B", 1_000_000_000))


def categories_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the categories of the probes, each once."""
    names = (name for finding in findings for name in finding.probe.categories)
    return tuple(dict.fromkeys(CATEGORY_OF.get(name.casefold(), name.casefold()) for name in names))


def title_of(findings: Sequence[Finding]) -> str:
    """Return the function and the title of the worst finding's probe, in one short line."""
    leader = findings[0]
    is_shared = len({one.result.target for one in findings}) > 1
    subject = function_of(leader) if is_shared else short_target(leader.result.target)
    title = inert_line(leader.probe.title)
    whole = inert_line(f"{subject}: {title}")
    return whole if len(whole) <= _LONGEST_TITLE else shortened(title, _LONGEST_TITLE - 3)


def function_of(finding: Finding) -> str:
    """Return the qualified name of the function in which the finding is."""
    location = finding.result.location
    name = (location.function if location else "") or short_target(finding.result.target)
    return re.sub(r"(\.?<locals>\.)?<(listcomp|genexpr|setcomp|dictcomp|lambda)>$", "", inert_line(name))


def location_of(finding: Finding) -> str:
    """Return `file:line` of the statement that causes the finding, the only line number that an audit updates.

    The path is that from the top of the repository.
    """
    statement, place = finding.result.statement, finding.result.location
    file, line = (statement.file, statement.first) if statement else (place.file, place.line) if place else ("", 0)
    if not file:
        return ""
    is_below = finding.source and not finding.source.startswith("..") and finding.environment.checkout != BUNDLED
    path = PurePosixPath(finding.source, file) if is_below else PurePosixPath(file)
    return f"{path}:{line}" if line else str(path)


def body_of(
    findings: Sequence[Finding], ticket_id: str, most_rows: int
) -> tuple[list[tuple[str, str]], tuple[Box, ...]]:
    """Return the sections and the boxes of a new ticket. The first finding is the worst; see ROW_LIMITS."""
    leader = findings[0]
    firsts = list({finding.probe.id: finding for finding in reversed(findings)}.values())[::-1]
    probes = [finding.probe.id for finding in firsts if finding.severity is not Severity.P4 or finding is leader]
    sections = [
        ("", _introduction(findings, firsts, most_rows)),
        (REPRODUCE, _reproduce(leader)),
        (FIX, _fix(findings, ticket_id, most_rows)),
    ]
    return sections, tuple(Box(f"probe: {probe}") for probe in probes)


def _introduction(findings: Sequence[Finding], firsts: Sequence[Finding], most_rows: int) -> str:
    leader = findings[0]
    why, does = _sentence(leader.result.why) if leader.result.why else "", leader.probe.statement_does
    cause = f"The marked statement {markdown.line(does)}." if leader.result.statement is not None and does else ""
    told = (f"**{_sentence(leader.result.message)}**", f"{why} {cause}".strip(), _met_by(findings))
    parts = ["\n".join(_paragraph(text) for text in told if text)]
    excerpt = _excerpt(leader, min(_MOST_EXCERPT, most_rows + 2)) if most_rows else ""
    parts += [excerpt] if excerpt else []
    others = [one for one in firsts if one.probe.id != leader.probe.id]
    if others:
        lines = [
            f"- {one.severity.value} {markdown.code(one.probe.id)}: {_sentence(shortened(one.result.message, 150))}"
            for one in others[:most_rows]
        ]
        lines += [f"- and {len(others) - most_rows} more probes, see the boxes"] if len(others) > most_rows else []
        parts.append("The same cause:\n" + "\n".join(wrapped(markdown.line(line)) for line in lines))
    return "\n\n".join(parts)


def _sentence(text: str) -> str:
    """Return `text` as a sentence without line numbers, which only `location` has."""
    line = markdown.line(_LINE_NUMBERS.sub("", text)).strip()
    if re.match(r"[a-z]+[ ,]", line):
        line = line[0].upper() + line[1:]
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _paragraph(text: str) -> str:
    return "\n".join(textwrap.wrap(text, LONGEST_LINE, break_long_words=False, break_on_hyphens=False))


def _met_by(findings: Sequence[Finding]) -> str:
    """Return who meets the finding: as the run of a day showed, with its lines, else as the source shows."""
    target, met_by = findings[0].target, findings[0].result.met_by
    if met_by is not None and met_by.source == "run":
        return f"Met by: {markdown.line(met_by.sentence())}."
    places = [re.sub(r":\d+ in ", ": ", place) for place in (target.places if target else ())]
    through = list(dict.fromkeys(finding.result.target for finding in findings))
    if places:
        return f"Met by: {', '.join(map(markdown.code, dict.fromkeys(places)))}."
    if len(through) > 1:
        shown = ", ".join(map(markdown.code, through[:4]))
        return f"Met through: {shown}{f' and {len(through) - 4} more' if len(through) > 4 else ''}."
    if met_by is None:
        return ""
    files = tuple(dict.fromkeys(place.rpartition(":")[0] for place in met_by.callers))
    return _sentence(replace(met_by, callers=files).sentence())


def _excerpt(finding: Finding, most: int) -> str:
    """Return at most `most` lines of code around the statement as an indented block, its lines marked with `>`."""
    excerpt, statement = finding.result.excerpt, finding.result.statement
    if excerpt is None or not excerpt.lines:
        return ""
    first, last = (statement.first, statement.last) if statement else (0, 0)
    at = first - excerpt.first_line - most // 2 if first else 0
    start = max(0, min(at, len(excerpt.lines) - most))
    lines = excerpt.lines[start : start + most]
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    shown = []
    for number, line in enumerate(lines, excerpt.first_line + start):
        text = inert(line).replace("\n", "\\n")[indent:]
        is_cause = first <= number <= last
        shown.append(f"  > {text}" if is_cause else f"    {shortened(text, LONGEST_LINE - 7)}".rstrip())
    # A mark in the first column of a code block would make a quotation of it.
    return "```python\n" + "\n".join(line[2:] if line else "" for line in shown) + "\n```"


def command_of(finding: Finding) -> str:
    """Return the command that checks the finding again, from the top of the repository."""
    target = finding.target.command_words() if finding.target else ["--target", finding.result.target]
    probe = finding.asked_as or finding.result.probe
    if finding.probe.scope == "source":
        target = []
    if finding.environment.checkout == BUNDLED:
        words = ["auditkit", "audit", "--probe", probe, *target[:2], *finding.options]
    else:
        words = ["auditkit", "probe", "run", probe, "--checkout", finding.source or ".", *target, *finding.options]
    lines = [words[0]]
    for word in (shlex.quote(inert_line(word)) for word in words[1:]):
        if len(lines[-1]) + len(word) > LONGEST_LINE - 10:
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}"
    return " \\\n    ".join(lines)


def _reproduce(finding: Finding) -> str:
    """Return the script that was run, else the reason for none and the command of the probe."""
    if finding.reproduction:
        return finding.reproduction.strip("\n")
    why = finding.no_reproduction or "no script of a few lines was generated"
    return f"{_paragraph(_sentence(why))} The probe:\n\n    {command_of(finding)}"


def _fix(findings: Sequence[Finding], ticket_id: str, most_rows: int) -> str:
    fixes = list({finding.fix.difference: finding.fix for finding in findings if finding.fix}.values())
    if not fixes:
        reasons = [finding.no_fix for finding in findings if finding.no_fix]
        is_read = all(finding.probe.scope == "source" for finding in findings)
        why = reasons[0] if reasons else "the source was read and nothing was run" if is_read else "not searched for"
        advice = findings[0].probe.remediation
        told = f"No fix was run: {markdown.line(why)}." + (f" {_sentence(advice)}" if advice else "")
        return _paragraph(told)
    return "\n\n".join([fixes_text(fixes, ticket_id, most_rows), *_without_fix(findings)])


def fixes_text(fixes: Sequence[Fix], ticket_id: str, most_rows: int) -> str:
    """Return the first two fixes of a ticket as its section Fix shows them. `most_rows` is one of ROW_LIMITS."""
    return "\n\n".join(_one_fix(fix, ticket_id, most_rows) for fix in fixes[:2])


def is_of_fixes(text: str, fixes: Sequence[Fix], ticket_id: str) -> bool:
    """Return whether the section begins as auditkit wrote it for these fixes."""
    return bool(text and fixes) and any(fixes_text(fixes, ticket_id, most).startswith(text) for most in ROW_LIMITS)


def _without_fix(findings: Sequence[Finding]) -> list[str]:
    """Name the findings that stay with the fixes of the others, and why."""
    without = [finding for finding in findings if finding.fix is None]
    probes = list(dict.fromkeys(finding.probe.id for finding in without))
    if all(finding.severity is Severity.P4 for finding in without):
        return minor_left(probes)
    named = ", ".join(map(markdown.code, probes))
    reasons = "; ".join(dict.fromkeys(finding.no_fix for finding in without if finding.no_fix))
    return [_paragraph(f"No fix was run for {named}: {markdown.line(reasons or 'not tried')}.")]


def minor_left(probes: Sequence[str]) -> list[str]:
    """Name the probes of P4 that still reproduce with the fix."""
    named = ", ".join(map(markdown.code, probes))
    return [_paragraph(f"With it these minor findings still reproduce: {named}.")] if named else []


def _one_fix(fix: Fix, ticket_id: str, most_rows: int) -> str:
    """Return what the fix changes, its diff if it is short, and where it was run."""
    lines = fix.difference.rstrip("\n").split("\n")
    told = _paragraph(" ".join(map(_sentence, fix.changes)))
    result = f"Run on {fix.device} with torch {fix.torch}: it suffices, and no other probe is worse."
    is_short = len(lines) <= max(_SHORT_DIFF, _MOST_DIFF * most_rows // ROW_LIMITS[0]) and all(
        len(line) <= LONGEST_LINE for line in lines
    )
    command = markdown.code(f"auditkit ticket fix {ticket_id}")
    shown = markdown.fence(fix.difference, "diff") if is_short else f"The diff has {len(lines)} lines: {command}"
    return "\n".join([told, shown, _paragraph(result)])


# The evidence block.


def fitted(make: Callable[[int], Document]) -> Document:
    """Return the first document of those for ROW_LIMITS that keeps its limit of lines, or the shortest."""
    for most_rows in ROW_LIMITS:
        document = make(most_rows)
        most = MOST_LINES if len(document.ticket.findings) > 1 else MOST_LINES_OF_ONE
        if len(markdown.visible(document.text)) <= most:
            break
    return document


def with_evidence(document: Document, results: Sequence[Mapping[str, Any]], gone: Mapping[str, str]) -> Document:
    """Return the document with the table of its measurements, as long as the limit of lines allows."""
    return fitted(lambda most_rows: document.with_evidence(evidence_block(document.ticket, results, gone, most_rows)))


def evidence_block(
    ticket: Ticket, results: Sequence[Mapping[str, Any]], gone: Mapping[str, str], most_rows: int = ROW_LIMITS[0]
) -> str:
    """Return the table of the measurements that decide, and where they were taken; `results` are of the JSON file."""
    heads = {one["run"].get("revision", "")[:7] + (" (dirty)" if one["run"].get("dirty") else "") for one in results}
    revision = " and ".join(sorted(heads - {""}))
    rows: list[tuple[str, str, str]] = []
    seen: set[str] = set()
    for number, result in enumerate(results):
        fingerprint, probe = result["fingerprint"], result["probe"]
        if fingerprint in gone:
            rows.append((probe, f"not reproduced at {gone[fingerprint][:7]}", short_target(result["target"])))
        elif probe not in seen:
            rows += _rows(result, whole=number == 0)
        elif len(rows) < most_rows:
            rows.append((probe, "the same", short_target(result["target"])))
        seen.add(probe)
    cut = rows[: max(most_rows, 1)]
    table = [
        f"| | {f'at {revision}' if revision else 'value'} | case |",
        "|---|---|---|",
        *(f"| {' | '.join(shortened(markdown.cell(each), _LONGEST_CELL) for each in row)} |" for row in cut),
    ]
    table += [f"| {len(rows) - len(cut)} more rows | | |"] if len(rows) > len(cut) and most_rows else []
    return "\n".join([*table, "", *_origin(ticket.id, results)])


def _rows(result: Mapping[str, Any], whole: bool) -> list[tuple[str, str, str]]:
    read = ProbeResult.from_json(result)
    grown = _growth(read.measurements) if whole else []
    told = {name.partition(",")[0] for name, _, _ in grown}
    measured = [one for one in deciding(read) if one.unit != "line" and one.name not in told][: 3 if whole else 1]
    rows = [(one.name, format_value(one.value, one.unit), _case(one)) for one in measured]
    if result.get("law"):
        rows.insert(0, ("growth", str(result["law"]), "fitted"))
    if not rows:
        rows = [(result["probe"], str(result["outcome"]).replace("_", " "), short_target(result["target"]))]
    return [*grown, *rows]


def _case(one: Measurement) -> str:
    label = "" if one.evidence in (EvidenceKind.MEASURED, EvidenceKind.READ) else f"{one.evidence.value}, "
    return label + case_text({key: value for key, value in one.case.items() if key not in _PLACES})


def _growth(measurements: Sequence[Measurement]) -> list[tuple[str, str, str]]:
    """Return a number of bytes that grows with size at 10M, 100M and 1B parameters, if the probe fitted it."""
    names = {one.name for one in measurements if one.evidence is EvidenceKind.EXTRAPOLATED and one.unit == "bytes"}
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    for name, size in _SIZES:
        for one in measurements:
            if one.name in names and one.case.get("params", one.case.get("elements")) == size:
                row = (f"{one.name}, {name} parameters", format_value(one.value, one.unit), one.evidence.value)
                found.setdefault((one.name, name), row)
    return list(found.values())


def _origin(ticket_id: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """State the device, torch and the sandbox of the measurements."""
    told = []
    for result in results:
        run, device = result["run"], result.get("device") or result["run"].get("device", "")
        is_sandboxed = run.get("sandbox", "none") != "none"
        sandbox = f"in {run['sandbox']}" if is_sandboxed else "no sandbox"
        if device == SOURCE_DEVICE:
            told.append(f"read from the source, {sandbox}" if is_sandboxed else "read from the source")
            continue
        how = "simulated device on the CPU" if device == "simulated" else f"measured on {device}"
        name = f" ({run['device_name']})" if run.get("device_name") and device != "simulated" else ""
        told.append(f"{how}{name}, torch {run.get('torch') or UNKNOWN}, {sandbox}")
    where = "; ".join(dict.fromkeys(told)) or "not measured"
    return [wrapped(f"{markdown.line(where)} · full data: evidence/{ticket_id}.json")]


def domain_of(location: str) -> str:
    """Return the part of the code base that a file belongs to: its last folders, or its own name."""
    *folders, name = location.partition(":")[0].split("/")
    parts = [part for part in folders if part not in ("src", "lib", "python")]
    return "/".join(parts[-2:]) or name.removesuffix(".py")
