"""The page of a run: what was checked and found, each cause in one place, what got no result, where it is from."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.runs.candidates import by_reason, not_checked
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.run import ArmOutcome, ProbeResult, Run
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted, listed
from auditkit.model.units import format_value
from auditkit.reports.causes import Cause, Sources, causes_of
from auditkit.reports.findings import standings_of
from auditkit.reports.html.pictures import pictures_of
from auditkit.reports.page import (
    Block,
    Code,
    Diff,
    Figure,
    Folded,
    Items,
    Link,
    Listing,
    Page,
    Section,
    Span,
    Spans,
    Strong,
    Table,
    Text,
)
from auditkit.tickets.deciding import case_text, evidence_words

_SILENT = (Outcome.UNAVAILABLE, Outcome.ERROR)
_MOST_CARDS, _MOST_OPEN = 8, 5
"""Findings that are written in full, and those of them that are unfolded from the start: the worst."""
_MOST_CODE, _CODE_BEFORE = 6, 3
_MOST_REASONS, _MOST_NOTES = 12, 6
_LONGEST_ADVICE = 400
_Key = tuple[str, str]


def run_page(sources: Sources) -> Page:
    """The page of a run; with `sources.file`, of what it found in that file."""
    run = sources.run
    causes = causes_of(sources)
    anchors = {_key(one): _anchor(each) for each in causes for one in each.results}
    own = [each for each in causes if not each.worst.result.owner]
    grave = [each for each in own if each.worst.severity is not Severity.P4]
    sections = [
        *_beside_tickets(run),
        *_arms_section(run, anchors),
        Section("Findings", tuple(_findings(sources, causes, grave, anchors)), anchor="findings"),
        *_not_checked_section(run),
        Section("How it was made", tuple(_made(sources)), anchor="made"),
    ]
    return Page(
        title=_title(sources, [*grave, *(each for each in causes if each not in grave)]),
        summary=tuple(_summary(run, causes, grave)),
        facts=tuple(_facts(run)),
        sections=tuple(sections),
        attachment=(f"auditkit-{run.id}.json.gz", _packed(run)),
    )


def _anchor(cause: Cause) -> str:
    """The same in every report in which this finding leads its cause."""
    one = cause.worst.result
    return f"f-{hashlib.sha256(one.fingerprint.encode('utf-8', 'replace')).hexdigest()[:10]}"


def _findings(
    sources: Sources, causes: Sequence[Cause], grave: Sequence[Cause], anchors: Mapping[_Key, str]
) -> Iterator[Block]:
    """The worst in full; of the others a line each, with the rest folded behind it."""
    run = sources.run
    if not causes:
        said = "" if run.summary["not_reproduced"] else " No probe returned a result, which is not a pass."
        yield Text((f"Nothing reproduced.{said}",))
    for number, cause in enumerate(grave[:_MOST_CARDS]):
        yield _card(sources, cause, anchors, number < _MOST_OPEN)
    minor = [each for each in causes if not each.worst.result.owner and each.worst.severity is Severity.P4]
    foreign = [each for each in causes if each.worst.result.owner]
    for title, those in (
        ("More findings", grave[_MOST_CARDS:]),
        ("Minor (P4): nothing breaks today", minor),
        ("In other packages: everyone who calls these functions has the same defects", foreign),
    ):
        if those:
            cards = tuple(_card(sources, each, anchors, False) for each in those)
            yield Section(title, (_table(those, sources.prefix), Folded("Each with its numbers", cards)))


def _title(sources: Sources, causes: Sequence[Cause]) -> str:
    environment = sources.run.environment
    name = PurePath(environment.checkout.partition("@")[0]).name or "This checkout"
    revision = f" at {environment.revision[:12]}" if environment.revision else ""
    subject = sources.file or f"{name}{revision}{' with uncommitted changes' if environment.dirty else ''}"
    if not causes:
        return f"{subject}: nothing reproduced"
    more = f" and {counted(len(causes) - 1, 'more finding')}" if sources.file and len(causes) > 1 else ""
    return f"{subject}: {causes[0].worst.probe.title}{more}" if sources.file else subject


def _summary(run: Run, causes: Sequence[Cause], own: Sequence[Cause]) -> Iterator[str]:
    """At most five sentences: what was checked, the worst, what was not checked, the evidence, what to do first."""
    targets = {one.target for one in run.results if not one.is_of_source}
    checked = [counted(len(targets), "function")] if targets or not run.results else []
    checked += ["the source"] if any(one.is_of_source for one in run.results) else []
    probes = len({one.probe for one in run.results})
    levels = Counter(each.worst.severity.value for each in causes)
    minor = levels.pop("P4", 0)
    found = [", ".join(f"{count} {level}" for level, count in sorted(levels.items()))] if levels else []
    found += [run.baseline.in_words()] if run.baseline else []
    head = counted(levels.total(), "finding") if causes else "nothing reproduced"
    head += f" ({'; '.join(found)})" if found else ""
    head += f", {minor} minor" if minor else ""
    yield f"Checked {' and '.join(checked)} with {counted(probes, 'probe')}: {head}."
    if own:
        worst = own[0].worst
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
    if own:
        first = next((fix for fix in run.fixes if {one.fingerprint for one in own[0].results} & {*fix.mends}), None)
        advice = "; ".join(first.changes) if first else _first_sentence(own[0].worst.probe.remediation)
        if advice:
            yield f"Do this first{' (this fix was run)' if first else ''}: {advice.rstrip('.')}."


def _evidence(run: Run) -> str:
    """How the results were obtained, in one sentence."""
    kinds: Counter[str] = Counter()
    for one in run.results:
        if one.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED):
            words = "read from the source" if one.is_of_source else f"{one.evidence or 'measured'} on {one.device}"
            kinds[
                "simulated (CPU values behind a simulated CUDA device)" if one.evidence is Evidence.SIMULATED else words
            ] += 1
    if not kinds:
        return "No result has evidence."
    on_gpu = any(one.device == "cuda" and one.evidence is Evidence.MEASURED for one in run.results)
    parts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"Evidence of the results: {parts}{'' if on_gpu else '; no number is from a GPU'}."


def _facts(run: Run) -> Iterator[tuple[str, Spans]]:
    environment = run.environment
    dirty = ", with uncommitted changes" if environment.dirty else ""
    revision = (" at ", Code(environment.revision[:12])) if environment.revision else ()
    yield "Checkout", (Code(environment.checkout), *revision, dirty)
    for label, each in [(arm.label, arm.run.environment) for arm in run.matrix] or [("Ran on", environment)]:
        name = f" ({each.device_name})" if each.device_name else ""
        ran = f"torch {each.torch}, Python {each.python}, {each.device}{name}"
        yield label, (ran if each.torch else "no interpreter: the source was read",)
    auditkit = f", auditkit {environment.auditkit}" if environment.auditkit else ""
    yield "Run", (Code(run.id), f"{auditkit}, {environment.sandbox_in_words}")


def _card(sources: Sources, cause: Cause, anchors: Mapping[_Key, str], is_open: bool) -> Section:
    run = sources.run
    standings = standings_of(run) if run.baseline else {}
    one = cause.worst.result
    standing = "; ".join(
        dict.fromkeys(standings[each.fingerprint].in_words() for each in cause.results if each.fingerprint in standings)
    )
    ticket = f"ticket {cause.ticket}{f' ({cause.status})' if cause.status else ''}" if cause.ticket else ""
    place: Spans = (Code(f"{sources.prefix}{one.location.file}:{one.location.line}"),) if one.location else ()
    if one.location and one.location.function:
        place += (" in ", Code(one.location.function))
    met_by = one.met_by.sentence() if one.met_by is not None else ""
    owner = f"defect of {one.owner}" if one.owner else ""
    beside = [text for text in (standing, ticket, owner, one.why, met_by) if text]
    return Section(
        title=cause.title,
        blocks=tuple(_finding_blocks(run, cause)),
        anchor=anchors[_key(one)],
        severity=cause.worst.severity.value,
        probes=tuple(dict.fromkeys(each.probe for each in cause.results)),
        lead=(*place, *(("; " if place else "") + "; ".join(beside) + ".",) * bool(beside)),
        is_open=is_open,
    )


def _finding_blocks(run: Run, cause: Cause) -> Iterator[Block]:
    results = cause.results
    prints = {one.fingerprint for one in results}
    fix = next((fix for fix in run.fixes if prints & {*fix.mends}), None)
    yield Items(tuple(_said(results)))
    for one in {each.probe: each for each in reversed(results)}.values():
        yield from map(Figure, pictures_of(one))
    if fix is not None and fix.difference:
        yield Text((Strong("Fix that was run"), f" on {fix.device} with torch {fix.torch}: {'; '.join(fix.changes)}. "
                    f"With it {counted(len(fix.mends), 'finding does', 'findings do')} not reproduce."))  # fmt: skip
        yield Diff(fix.difference)
        yield Folded("Results without and with the fix", (_fix_table(fix),))
    else:
        yield from _code(results)
        advice = cause.worst.probe.remediation
        if advice:
            no_fix = next((run.no_fix[each] for each in prints if each in run.no_fix), "")
            tried = f" No fix was run: {no_fix.rstrip('.')}." if no_fix else ""
            yield Text((Strong("Advice:"), f" {_within(advice)}{tried}"))
    if cause.worst.probe.motivation:
        yield Folded("Why it matters", (Text((cause.worst.probe.motivation,)),))
    yield Folded("Numbers", tuple(_numbers(results)))


def _said(results: Sequence[ProbeResult]) -> Iterator[Spans]:
    """One line for each probe and message, with the targets that it is about."""
    groups: dict[tuple[str, str], list[ProbeResult]] = {}
    every = {short_target(one.target) for one in results}
    for one in results:
        groups.setdefault((one.probe, one.message), []).append(one)
    for (probe, message), those in groups.items():
        targets = [short_target(one.target) for one in those]
        about = () if len(every) == 1 or {*targets} == every else (" of ", Code(listed(targets, 3)))
        differ = f" ({those[0].arms_in_words()})" if those[0].arms_differ else ""
        yield (Code(probe), *about, f": {message} ({evidence_words(those[0])}){differ}")


def _code(results: Sequence[ProbeResult]) -> Iterator[Listing]:
    """Return the blamed lines with those that lead to them; nothing of a library's function."""
    quoted = [one for one in results if one.excerpt and one.excerpt.lines and not one.owner]
    if not quoted:
        return
    one = max(quoted, key=lambda each: each.statement is not None)
    excerpt, statement, place = one.excerpt, one.statement, one.location
    assert excerpt is not None
    first = last = place.line if place else 0
    if statement is not None and statement.file == excerpt.file:
        first, last = statement.first, statement.last
    start = max(0, min(first - excerpt.first_line - _CODE_BEFORE, len(excerpt.lines) - _MOST_CODE))
    shown = excerpt.lines[start : start + _MOST_CODE]
    # A line that only defines a function is where to look, and not what is wrong.
    if statement is None and first and shown and _defines(excerpt.lines[max(first - excerpt.first_line, 0) :][:1]):
        first = last = 0
    yield Listing(excerpt.file, excerpt.first_line + start, shown, first, last)


def _defines(lines: Sequence[str]) -> bool:
    return any(line.lstrip().startswith(("def ", "async def ", "class ", "@")) for line in lines)


def _fix_table(fix: Fix) -> Table:
    return Table(("probe", "without", "with"), tuple((row.probe, row.base, row.patched) for row in fix.rows))


def _numbers(results: Sequence[ProbeResult]) -> Iterator[Block]:
    """What each probe measured, once for each probe, and its notes."""
    for one in {each.probe: each for each in reversed(results)}.values():
        rows = tuple(
            (each.name, format_value(each.value, each.unit), each.unit, case_text(each.case), each.evidence.value)
            for each in one.measurements
        )
        if rows:
            yield Table(("name", "value", "unit", "case", "evidence"), rows, f"{one.probe} of {one.target}")
        if one.notes:
            yield Items(tuple((note,) for note in one.notes))


def _table(causes: Sequence[Cause], prefix: str) -> Table:
    """A line for each probe and message."""
    rows: dict[tuple[str, str], list[Cause]] = {}
    for cause in causes:
        rows.setdefault((cause.worst.probe.id, cause.worst.result.owner), []).append(cause)
    return Table(
        ("Probe", "Where", "Result"),
        tuple(
            (Code(probe), Code(_place(those[0], prefix)), f"{those[0].worst.result.message}{_more(those)}")
            for (probe, _), those in rows.items()
        ),
    )


def _place(cause: Cause, prefix: str) -> str:
    one = cause.worst.result
    return one.owner or (
        f"{prefix}{one.location.file}:{one.location.line}" if one.location else short_target(one.target)
    )


def _more(causes: Sequence[Cause]) -> str:
    return f" (and {counted(len(causes) - 1, 'more place')})" if len(causes) > 1 else ""


def _not_checked_section(run: Run) -> Iterator[Section]:
    """Checks without a result, and functions that were found and not checked, each reason once."""
    silent: dict[tuple[Outcome, str], list[ProbeResult]] = {}
    for one in run.results:
        if one.outcome in _SILENT:
            silent.setdefault((one.outcome, one.message), []).append(one)
    rows: list[Spans] = []
    for (outcome, message), those in sorted(silent.items(), key=lambda item: -len(item[1])):
        probes = list(dict.fromkeys(one.probe for one in those))
        rows.append((Strong(outcome.value), f" ({counted(len(those), 'check')} by {listed(probes, 3)}): {message}"))
    for reason, places in by_reason(run.candidates).items():
        at = listed([f"{short_target(each.call)} ({each.file}:{each.line})" for each in places], 3)
        rows.append((Strong("not checked"), f" ({counted(len(places), 'function')}): {reason}: {at}"))
    for reason, count in Counter(each.excluded for each in run.candidates if each.excluded).items():
        rows.append((Strong("left out"), f" ({counted(count, 'function')}): {reason}"))
    if rows:
        more: list[Spans] = [(f"{len(rows) - _MOST_REASONS} more reasons are in the run's JSON",)]
        shown = [*rows[:_MOST_REASONS], *(more if len(rows) > _MOST_REASONS else [])]
        yield Section("Not checked, which is not a pass", (Items(tuple(shown)),), anchor="silent")


def _made(sources: Sources) -> Iterator[Block]:
    run = sources.run
    sound = sorted({one.probe for one in run.results} - {one.probe for one in run.results if _is_loud(one)})
    asked = [name for name in sound if any(_is_sound(one) for one in run.results if one.probe == name)]
    if asked:
        yield Text((f"{counted(len(asked), 'probe')} reproduced nowhere: ", Code(", ".join(asked)), "."))
    notes = dict.fromkeys((*run.notes, *sources.notes))
    if notes:
        shown = [(note,) for note in list(notes)[:_MOST_NOTES]]
        yield Items((*shown, *[(f"{len(notes) - _MOST_NOTES} more notes",)] * (len(notes) > _MOST_NOTES)))
    yield Text(("Every finding with its numbers is in the run's JSON (`auditkit audit --save FILE`).",))


def _is_loud(one: ProbeResult) -> bool:
    return one.outcome in (Outcome.REPRODUCED, *_SILENT)


def _is_sound(one: ProbeResult) -> bool:
    return one.outcome is Outcome.NOT_REPRODUCED


def _beside_tickets(run: Run) -> Iterator[Section]:
    """Compare the findings with the tickets, with --new-only."""
    found = run.baseline
    if found is None:
        return
    against = (" at ", Code(found.against[:12])) if found.against else ()
    rows: list[tuple[Span, ...]] = []
    for word, those in (
        ("new", found.new),
        ("gone", found.gone),
        ("not checked", found.unasked),
        ("known", found.known),
    ):
        rows += [(word, Code(one.fingerprint), Code(one.ticket), one.why) for one in those]
    head = Text((f"{found.in_words()}, by the tickets in ", Code(found.tickets), *against, "."))
    table = (Table(("", "Fingerprint", "Ticket", "Why"), tuple(rows)),) if rows else ()
    yield Section("New, known and gone", (head, *table), anchor="baseline")


def _key(one: ProbeResult) -> _Key:
    return one.probe, one.target


def _arms_section(run: Run, anchors: Mapping[_Key, str]) -> Iterator[Section]:
    """Findings by torch and device: first those that are not the same everywhere."""
    labels = tuple(arm.label for arm in run.matrix)
    found = [one for one in run.results if any(arm.outcome is Outcome.REPRODUCED for arm in one.arms)]
    found.sort(key=lambda one: (one.severity or "P9", one.fingerprint))
    blocks: list[Block] = []
    for differ, words in ((True, "not the same everywhere"), (False, "the same everywhere")):
        rows: list[tuple[Span, ...]] = []
        for one in (one for one in found if one.arms_differ is differ):
            arms = {arm.arm: arm for arm in one.arms}
            name = Link(f"{one.probe} of {short_target(one.target)}", anchors.get(_key(one), ""))
            rows.append((name, *(_arm_words(arms.get(label)) for label in labels)))
        if rows:
            blocks.append(Table(("finding", *labels), tuple(rows), f"{counted(len(rows), 'finding')}: {words}"))
    if blocks:
        yield Section("By torch and device", tuple(blocks), anchor="arms")


def _arm_words(arm: ArmOutcome | None) -> str:
    return arm.answer if arm is not None else "not run"


def _within(text: str) -> str:
    """As many whole sentences as fit, at least one."""
    kept = ""
    for sentence in text.replace(". ", ".\0").split("\0"):
        if kept and len(kept) + len(sentence) > _LONGEST_ADVICE:
            break
        kept = f"{kept} {sentence}".strip()
    return kept


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0]


def _packed(run: Run) -> bytes:
    return gzip.compress(json.dumps(run.to_json(), ensure_ascii=True).encode("ascii"), 9, mtime=0)
