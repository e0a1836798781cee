"""The page of a run: what was checked and found, each cause in one place, what got no result, where it is from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from auditkit.model.enums import Evidence, Outcome
from auditkit.model.runs.candidates import by_reason, not_checked
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.run import Environment, ProbeResult, Run
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted, listed
from auditkit.model.units import format_value
from auditkit.reports.causes import Cause, Sources, causes_of, counts, in_short, without_result
from auditkit.reports.findings import Row, rows_of
from auditkit.reports.html.pictures import pictures_of
from auditkit.reports.page import Block, Page, Section, bold, diff, first, items, listing, paragraph, table, text
from auditkit.tickets.deciding import case_text, evidence_words
from auditkit.tickets.markdown import code

_MOST_CARDS = 8
"""Findings that are written in full: the worst."""
_MOST_REASONS, _MOST_NOTES = 12, 6


def run_page(sources: Sources) -> Page:
    """The page of a run; with `sources.file`, of what it found in that file."""
    run, causes = sources.run, causes_of(sources)
    grave = [each for each in causes if each.is_own and not each.is_minor]
    sections = [
        Section("New, known and gone", tuple(_beside_tickets(run))),
        Section("By torch and device", tuple(_by_arm(run))),
        Section("Findings", tuple(_findings(sources, causes, grave))),
        Section("Not checked, which is not a pass", (items(_not_checked(run)),)),
        Section("How it was made", tuple(_made(sources))),
    ]
    return Page(_title(sources, grave or causes), tuple(_summary(run, causes, grave)), tuple(_facts(run)), sections)


def _findings(sources: Sources, causes: Sequence[Cause], grave: Sequence[Cause]) -> Iterator[Block]:
    """The worst in full; of the others a line each, with the rest folded behind it."""
    standings = {row.result.fingerprint: row for row in rows_of(sources.run)} if sources.run.baseline else {}
    if not causes:
        said = "" if sources.run.summary["not_reproduced"] else " No probe returned a result, which is not a pass."
        yield f"Nothing reproduced.{said}"
    yield from (_card(sources, cause, standings) for cause in grave[:_MOST_CARDS])
    for title, those in (
        ("More findings", grave[_MOST_CARDS:]),
        ("Minor (P4): nothing breaks today", [each for each in causes if each.is_own and each.is_minor]),
        ("In other packages, or of style", [each for each in causes if not each.is_own]),
    ):
        cards = (_card(sources, each, standings, is_folded=True) for each in those)
        yield Section(title, (_table(those, sources.prefix), *cards))


def _title(sources: Sources, causes: Sequence[Cause]) -> str:
    environment = sources.run.environment
    name = PurePath(environment.checkout.partition("@")[0]).name or "This checkout"
    revision = f" at {environment.revision[:12]}" if environment.revision else ""
    subject = sources.file or f"{name}{revision}{' with uncommitted changes' if environment.dirty else ''}"
    if not causes:
        return f"{subject}: nothing reproduced"
    more = f" and {counted(len(causes) - 1, 'more finding')}" if len(causes) > 1 else ""
    return f"{subject}: {causes[0].worst.probe.title}{more}" if sources.file else subject


def _summary(run: Run, causes: Sequence[Cause], grave: Sequence[Cause]) -> Iterator[str]:
    """At most five sentences: what was checked, the worst, what was not checked, the evidence, what to do first."""
    yield f"{counts(run, causes)}."
    if grave:
        worst = grave[0].worst
        place = f" at {worst.result.location.file}:{worst.result.location.line}" if worst.result.location else ""
        why = f" ({worst.result.why})" if worst.result.why else ""
        yield f"The worst is {worst.severity.value}: {worst.probe.title}{place}{why}."
    elif causes:
        yield "Nothing that this checkout's own code does breaks training today."
    missed = not_checked(run.candidates)
    silent = run.summary["unavailable"] + run.summary["error"]
    gaps = [missed] if missed else []
    gaps += [f"{counted(silent, 'check')} returned no result, which is not a pass"] if silent else []
    yield f"{'; '.join(gaps)}." if gaps else "Every check returned a result."
    yield _evidence(run)
    if grave:
        fix = _fix_of(run, grave[0])
        advice = "; ".join(fix.changes) if fix else in_short(grave[0].worst.probe.remediation)
        if advice:
            yield f"Do this first{' (this fix was run)' if fix else ''}: {advice.rstrip('.')}."


def _fix_of(run: Run, cause: Cause) -> Fix | None:
    return next((fix for fix in run.fixes if {one.fingerprint for one in cause.results} & {*fix.mends}), None)


def _evidence(run: Run) -> str:
    """How the results were obtained, in one sentence."""
    answers = [one for one in run.results if one.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)]
    kinds = Counter(map(evidence_words, answers))
    if not kinds:
        return "No result has evidence."
    on_gpu = any(one.device == "cuda" and one.evidence is Evidence.MEASURED for one in answers)
    parts = "; ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"Evidence of the results: {parts}{'' if on_gpu else '; no number is from a GPU'}."


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    environment = run.environment
    yield "Checkout:", checkout_in_words(environment)
    for label, each in [(arm.label, arm.run.environment) for arm in run.matrix] or [("Ran on", environment)]:
        yield f"{label}:", machine_in_words(each)
    auditkit = f", auditkit {environment.auditkit}" if environment.auditkit else ""
    yield "Run:", f"{code(run.id)}{text(f'{auditkit}, {environment.sandbox_in_words}')}"


def checkout_in_words(environment: Environment) -> str:
    """Which code it was, as Markdown."""
    revision = f" at {code(environment.revision[:12])}" if environment.revision else ""
    return f"{code(environment.checkout)}{revision}{', with uncommitted changes' if environment.dirty else ''}"


def machine_in_words(environment: Environment) -> str:
    """What ran it, as Markdown."""
    name = f" ({environment.device_name})" if environment.device_name else ""
    ran = f"torch {environment.torch}, Python {environment.python}, {environment.device}{name}"
    return text(ran if environment.torch else "no interpreter: the source was read")


def _card(sources: Sources, cause: Cause, standings: Mapping[str, Row], is_folded: bool = False) -> Section:
    run, one = sources.run, cause.worst.result
    rows = [standings[each.fingerprint] for each in cause.results if each.fingerprint in standings]
    known = dict.fromkeys(", ".join(filter(None, (row.standing, row.ticket))) for row in rows)
    ticket = f"ticket {cause.ticket}{f' ({cause.status})' if cause.status else ''}" if cause.ticket else ""
    place = code(f"{sources.prefix}{one.location.file}:{one.location.line}") if one.location else ""
    if one.location and one.location.function:
        place += f" in {code(one.location.function)}"
    met_by = one.met_by.sentence() if one.met_by is not None else ""
    beside = [*known, ticket, f"defect of {one.owner}" if one.owner else "", one.why, met_by]
    said = text("; ".join(filter(None, beside)))
    lead = "; ".join(filter(None, (place, f"{said}." if said else "")))
    return Section(cause.title, (paragraph(lead), *_finding_blocks(run, cause)), cause.worst.severity.value, is_folded)


def _finding_blocks(run: Run, cause: Cause) -> Iterator[Block]:
    results, probe, fix = cause.results, cause.worst.probe, _fix_of(run, cause)
    yield items(_said(results))
    of_probes = {each.probe: each for each in reversed(results)}.values()
    for one in of_probes:
        yield from pictures_of(one)
    if fix is not None and fix.difference:
        gone = counted(len(fix.mends), "finding does", "findings do")
        ran = f"on {fix.device} with torch {fix.torch}: {'; '.join(fix.changes)}. With it {gone} not reproduce."
        yield paragraph(f"{bold('Fix that was run')} {text(ran)}")
        yield diff(fix.difference)
        rows = ((row.probe, row.base, row.patched) for row in fix.rows)
        yield Section("Results without and with the fix", (table(("probe", "without", "with"), rows),), is_folded=True)
    else:
        yield from _code(results)
        if probe.remediation:
            no_fix = next((run.no_fix[one.fingerprint] for one in results if one.fingerprint in run.no_fix), "")
            tried = f" No fix was run: {no_fix.rstrip('.')}." if no_fix else ""
            yield paragraph(f"{bold('Advice:')} {text(f'{probe.remediation}{tried}')}")
    yield Section("Why it matters", (paragraph(text(probe.motivation)),), is_folded=True)
    yield Section("Numbers", tuple(block for one in of_probes for block in _numbers(one)), is_folded=True)


def _said(results: Sequence[ProbeResult]) -> Iterator[str]:
    """One line for each probe and message, with the targets that it is about."""
    groups: dict[tuple[str, str], list[ProbeResult]] = {}
    every = {short_target(one.target) for one in results}
    for one in results:
        groups.setdefault((one.probe, one.message), []).append(one)
    for (probe, message), those in groups.items():
        targets = [short_target(one.target) for one in those]
        about = "" if len(every) == 1 or {*targets} == every else f" of {code(listed(targets, 3))}"
        differ = f" ({those[0].arms_in_words()})" if those[0].arms_differ else ""
        yield f"{code(probe)}{about}: {text(f'{message} ({evidence_words(those[0])}){differ}')}"


def _code(results: Sequence[ProbeResult]) -> Iterator[str]:
    """The excerpt with its blamed statement marked; nothing of a library's function."""
    quoted = [(one.statement, one.excerpt) for one in results if one.excerpt and one.excerpt.lines and not one.owner]
    for statement, excerpt in sorted(quoted, key=lambda each: each[0] is None)[:1]:
        # A line that only defines a function is no statement: it is where to look, and not what is wrong.
        is_there = statement is not None and statement.file == excerpt.file
        marked = range(statement.first, statement.last + 1) if statement and is_there else range(0)
        yield listing(excerpt.first_line, excerpt.lines, marked)


def _numbers(one: ProbeResult) -> Iterator[str]:
    """What a probe measured, and its notes."""
    rows = (
        (each.name, format_value(each.value, each.unit), each.unit, case_text(each.case), each.evidence.value)
        for each in one.measurements
    )
    yield f"{code(one.probe)} of {code(one.target)}" if one.measurements else ""
    yield table(("name", "value", "unit", "case", "evidence"), rows)
    yield items(map(text, one.notes))


def _table(causes: Sequence[Cause], prefix: str) -> str:
    """A line for each probe."""
    rows: dict[tuple[str, str], list[Cause]] = {}
    for cause in causes:
        rows.setdefault((cause.worst.probe.id, cause.worst.result.owner), []).append(cause)
    cells = []
    for (probe, owner), those in rows.items():
        one = those[0].worst.result
        place = f"{prefix}{one.location.file}:{one.location.line}" if one.location else short_target(one.target)
        more = f" (and {counted(len(those) - 1, 'more place')})" if len(those) > 1 else ""
        cells.append((probe, owner or place, f"{one.message}{more}"))
    return table(("Probe", "Where", "Result"), cells, code=(0, 1))


def _not_checked(run: Run) -> list[str]:
    """Checks without a result, and functions that were found and not checked, each reason once."""
    rows: list[str] = []
    for (why, message), those in without_result(run.results).items():
        probes = list(dict.fromkeys(one.probe for one in those))
        count = counted(len(those), "check")
        rows.append(f"{bold(why)} {text(f'({count} by {listed(probes, 3)}): {message}')}")
    for reason, places in by_reason(run.candidates).items():
        at = listed([f"{short_target(each.call)} ({each.file}:{each.line})" for each in places], 3)
        functions = counted(len(places), "function")
        rows.append(f"{bold('not checked')} {text(f'({functions}): {reason}: {at}')}")
    for reason, number in Counter(each.excluded for each in run.candidates if each.excluded).items():
        functions = counted(number, "function")
        rows.append(f"{bold('left out')} {text(f'({functions}): {reason}')}")
    return first(rows, _MOST_REASONS, "{} more reasons are in the run's JSON")


def _made(sources: Sources) -> Iterator[str]:
    run = sources.run
    loud = {one.probe for one in run.results if one.outcome not in (Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE)}
    sound = sorted({one.probe for one in run.results if one.outcome is Outcome.NOT_REPRODUCED} - loud)
    if sound:
        yield paragraph(f"{counted(len(sound), 'probe')} reproduced nowhere: {code(', '.join(sound))}.")
    notes = list(dict.fromkeys((*run.notes, *sources.notes)))
    yield items(map(text, first(notes, _MOST_NOTES, "{} more notes")))
    yield "Every finding with its numbers is in the run's JSON (`auditkit audit --save FILE`)."


def _beside_tickets(run: Run) -> Iterator[str]:
    """Compare the findings with the tickets, with --new-only."""
    found = run.baseline
    if found is None:
        return
    against = f" at {code(found.against[:12])}" if found.against else ""
    groups = (("new", found.new), ("gone", found.gone), ("not checked", found.unasked), ("known", found.known))
    rows = [(word, one.fingerprint, one.ticket, one.why) for word, those in groups for one in those]
    yield paragraph(f"{found.in_words()}, by the tickets in {code(found.tickets)}{against}.")
    yield table(("", "Fingerprint", "Ticket", "Why"), rows, code=(1, 2))


def _by_arm(run: Run) -> Iterator[str]:
    """Findings by torch and device: first those that are not the same everywhere."""
    found = [one for one in run.results if any(arm.outcome is Outcome.REPRODUCED for arm in one.arms)]
    found.sort(key=lambda one: (not one.arms_differ, one.severity or "P9", one.fingerprint))
    if found and len(run.matrix) > 1:
        labels = [arm.label for arm in run.matrix]
        rows = []
        for one in found:
            arms = {arm.arm: arm.answer for arm in one.arms}
            rows.append((f"{one.probe} of {short_target(one.target)}", *(arms.get(each, "not run") for each in labels)))
        differing = sum(one.arms_differ for one in found)
        yield f"{differing} of {counted(len(found), 'finding')} differ between the environments."
        yield table(("finding", *labels), rows)
