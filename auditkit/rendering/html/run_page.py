"""The page of a run, or of two: the verdict, a matrix, each cause with its pictures and its fix, what got no answer."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.revisions.comparison import Change, Comparison, Contrast, Trend
from auditkit.model.runs.candidates import by_reason, not_checked
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.run import ArmOutcome, ProbeResult, Run
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted
from auditkit.rendering.audit_report import evidence_words
from auditkit.rendering.comparison_text import moved_figures
from auditkit.rendering.environment import render_page
from auditkit.rendering.evidence import measured_rows
from auditkit.rendering.html.page_style import page_style
from auditkit.rendering.html.pictures import WORDS, Picture, file_name, pictures_of, worst_number
from auditkit.rules.reports.audit import Sources, causes_of
from auditkit.rules.reports.audit_items import Cause, finding_title
from auditkit.rules.reports.audit_parts import Answer
from auditkit.rules.reports.findings import standings_of

_Key = tuple[str, str]
_SILENT = (Outcome.UNAVAILABLE, Outcome.ERROR)
_MOST_COLUMNS, _MOST_UPRIGHT = 14, 6
"""Columns that a matrix shows beside each other; of more, each row is a block of its own."""
_MOST_OPEN = 5
"""Cards that are unfolded from the start, the worst: of the others the summary says what was found and where."""
_MOST_CODE, _CODE_BEFORE = 14, 8
_CHANGES = {
    Change.INTRODUCED: "new", Change.STILL_REPRODUCED: "still there", Change.FIXED: "gone",
    Change.NOT_COMPARABLE: "cannot be compared", Change.STILL_SOUND: "still sound",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One answer in a matrix: its column, its shape and word, the worst number, and the card that tells more."""

    column: str
    kind: str
    sign: str
    word: str
    number: str = ""
    card: str = ""


@dataclass(frozen=True)
class Matrix:
    """Answers by target and probe: `corner` names the rows."""

    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]

    @property
    def layout(self) -> str:
        """How its columns lie: with upright heads where they are few, else turned; each row a block where many."""
        count = len(self.columns)
        return "stacked" if count > _MOST_COLUMNS else "turned" if count > _MOST_UPRIGHT else "few"


@dataclass(frozen=True)
class CodeLine:
    """A line of code, and whether it is the one that is blamed."""

    number: int
    text: str
    is_marked: bool


@dataclass(frozen=True)
class Card:
    """One cause as the page shows it; `changed` is what became of it since the base, "" where there is none.

    `standing` says whether tickets track it: `known, B1-PT-01`.
    """

    name: str
    cause: Cause
    title: str
    place: str
    pictures: tuple[Picture, ...]
    code: tuple[CodeLine, ...]
    code_file: str
    fix: Fix | None
    no_fix: str
    is_open: bool
    standing: str = ""
    changed: str = ""

    @property
    def severity(self) -> Severity:
        return self.cause.leader.severity

    @property
    def results(self) -> list[ProbeResult]:
        return [finding.result for finding in self.cause.findings]

    @property
    def told(self) -> list[tuple[ProbeResult, str, tuple[tuple[str, ...], ...]]]:
        """Each result with its evidence and its numbers; of one probe only the first with numbers."""
        seen: set[str] = set()
        rows = []
        for one in self.results:
            rows.append(
                (one, evidence_words(Answer(one)), () if one.probe in seen else measured_rows(one.measurements))
            )
            seen.add(one.probe)
        return rows


def run_page(sources: Sources, comparison: Comparison | None = None) -> bytes:
    """The page of a run; with a `comparison`, whose head it is, first what changed, and only that unfolded."""
    run = sources.run
    cards = list(_cards(sources, comparison))
    anchors = {_key(result): card.name for card in cards for result in card.results}
    style, style_hash = page_style()
    changes = _changes(comparison, anchors) if comparison else []
    verdict = _verdict(run, cards)
    return render_page(
        "run.html.j2",
        run=run,
        name=_name(run),
        style=style,
        style_hash=style_hash,
        verdict="; ".join(
            filter(None, (not_checked(run.candidates), _changed_words(changes) if comparison else "", verdict))
        ),
        counts=Counter(card.severity.value for card in cards),
        labels=_labels(run),
        environments=[(arm.label, arm.run.environment) for arm in run.matrix] or [("Ran on", run.environment)],
        matrix=_matrix(run, anchors),
        quiet=_quiet(run),
        outcomes=[WORDS[outcome] for outcome in Outcome],
        cards=cards,
        arms=_arms(run, anchors),
        comparison=comparison,
        changes=changes,
        change_counts=Counter(_CHANGES.get(one.change, "") for one in comparison.contrasts) if comparison else {},
        silent=_silent(run),
        unasked=by_reason(run.candidates),
        excluded=Counter(each.excluded for each in run.candidates if each.excluded),
        packed=base64.b64encode(_packed(run)).decode(),
        file=f"auditkit-{run.id}.json.gz",
    )


def pictures_by_file(run: Run) -> dict[str, Picture]:
    """Every picture of a run's findings by the name of a file for it; the same names for the same findings."""
    found = (result for result in run.results if result.outcome is Outcome.REPRODUCED)
    return {
        file_name(result.fingerprint, number): picture
        for result in found
        for number, picture in enumerate(pictures_of(result), 1)
    }


def _packed(run: Run) -> bytes:
    return gzip.compress(json.dumps(run.to_json(), ensure_ascii=True).encode("ascii"), 9, mtime=0)


def _name(run: Run) -> str:
    """The checkout's last folder and the revision that was asked."""
    environment = run.environment
    name = PurePath(environment.checkout.partition("@")[0]).name or environment.checkout
    revision = f" at {environment.revision[:12]}" if environment.revision else ""
    return f"{name}{revision}{' with uncommitted changes' if environment.dirty else ''}"


def _verdict(run: Run, cards: Sequence[Card]) -> str:
    found = run.summary[Outcome.REPRODUCED.value]
    levels = Counter(card.severity.value for card in cards)
    said = ", ".join(f"{count} {level}" for level, count in sorted(levels.items()))
    if not found:
        return "Nothing reproduced"
    causes = f" of {counted(len(cards), 'cause')}" if len(cards) != found else ""
    return f"{counted(found, 'finding')}{causes}: {said}"


def _labels(run: Run) -> list[tuple[str, str, int]]:
    """By which evidence the findings stand: the kind, in words, and how many of them."""
    counts: Counter[tuple[Evidence, str]] = Counter()
    device = run.environment.device_name or "this machine"
    words = {
        Evidence.SIMULATED: "simulated: CPU values behind a pretended CUDA device, no number is a GPU's",
        Evidence.READ: "read from the source, nothing was run",
    }
    for one in run.results:
        if one.outcome is Outcome.REPRODUCED:
            kind = one.evidence or Evidence.MEASURED
            measured = f"{kind} on {one.device} ({device}), {run.environment.sandbox_in_words}"
            counts[kind, words.get(kind, measured)] += 1
    kinds = list(Evidence)
    return [(*key, count) for key, count in sorted(counts.items(), key=lambda item: kinds.index(item[0][0]))]


def _cards(sources: Sources, comparison: Comparison | None) -> Iterator[Card]:
    run = sources.run
    changes = {_key(one): one for one in comparison.contrasts} if comparison else {}
    standings = standings_of(run)
    for number, cause in enumerate(causes_of(sources), 1):
        results = [finding.result for finding in cause.findings]
        shown = list({one.probe: one for one in reversed(results)}.values())[::-1]
        changed = [changes[_key(one)] for one in results if _key(one) in changes]
        said = [word for one in changed if (word := _change_word(one))]
        is_worse = any(one.is_worse for one in changed)
        place = next((result.location for result in results if result.location), None)
        quoted = max(results, key=lambda one: (any(line.is_marked for line in _code(one)), bool(one.excerpt)))
        yield Card(
            name=f"f{number}",
            cause=cause,
            title=finding_title(cause.findings),
            place=f"{place.file}:{place.line}{f' in {place.function}' if place.function else ''}" if place else "",
            pictures=tuple(picture for one in shown for picture in pictures_of(one)),
            code=tuple(_code(quoted)),
            code_file=quoted.excerpt.file if quoted.excerpt else "",
            fix=next((fix for fix in run.fixes if {one.fingerprint for one in results} & {*fix.mends}), None),
            no_fix=next((run.no_fix[one.fingerprint] for one in results if one.fingerprint in run.no_fix), ""),
            is_open=is_worse if comparison else number <= _MOST_OPEN and cause.leader.severity.at_least(Severity.P3),
            standing="; ".join(dict.fromkeys(standings[one.fingerprint].in_words() for one in results)),
            changed=", ".join(dict.fromkeys(said)),
        )


def _code(result: ProbeResult) -> Iterator[CodeLine]:
    excerpt, place, statement = result.excerpt, result.location, result.statement
    first = last = place.line if place else 0
    if statement is not None and excerpt is not None and statement.file == excerpt.file:
        first, last = statement.first, statement.last
    lines = list(enumerate(excerpt.lines, excerpt.first_line)) if excerpt else []
    # What is blamed, and little more than leads to it.
    start = max(0, min(first - lines[0][0] - _CODE_BEFORE, len(lines) - _MOST_CODE)) if lines else 0
    for number, line in lines[start : start + max(_MOST_CODE, last - first + 1 + _CODE_BEFORE)]:
        # Of what is only known to be in a function no line is blamed.
        is_definition = statement is None and line.lstrip().startswith(("def ", "async def ", "class ", "@"))
        yield CodeLine(number, line, first <= number <= last and not is_definition)


def _key(one: ProbeResult | Contrast) -> _Key:
    return one.probe, one.target


def _cell(column: str, said: ProbeResult | ArmOutcome | None, number: str, card: str) -> Cell:
    if said is None:
        return Cell(column, "none", "", "not asked")
    sign, word = WORDS[said.outcome]
    if said.outcome is not Outcome.REPRODUCED:
        return Cell(column, said.outcome.value, sign, word)
    return Cell(column, said.outcome.value, sign, (said.severity or Severity.P4).value, number, card)


def _matrix(run: Run, anchors: Mapping[_Key, str]) -> Matrix | None:
    """Targets by the probes that found something of one, or got no answer; the longer of the two are the rows."""
    asked = [one for one in run.results if not one.is_of_source]
    loud = [one for one in asked if one.outcome in (Outcome.REPRODUCED, *_SILENT)]
    if not loud:
        return None
    found = Counter(name for one in asked if one.outcome is Outcome.REPRODUCED for name in _key(one))
    worst: dict[str, str] = {}
    for each in asked:
        for name in _key(each):
            worst[name] = min(worst.get(name, "P9"), each.severity or "P9")
    probes = sorted({one.probe for one in loud}, key=lambda name: (worst[name], -found[name], name))
    # What got no answer for want of a device says nothing of its target.
    telling = {one.target for one in loud if one.outcome is not Outcome.UNAVAILABLE} or {one.target for one in loud}
    targets = sorted(telling, key=lambda name: (worst[name], -found[name], name))
    names = _names(targets) | {probe: probe for probe in probes}
    down, across = (targets, probes) if len(targets) > len(probes) else (probes, targets)
    answers = {pair: one for one in asked for pair in (_key(one), _key(one)[::-1])}
    rows = []
    for row in down:
        cells = []
        for column in across:
            one = answers.get((row, column))
            number, card = (worst_number(one), anchors.get(_key(one), "")) if one else ("", "")
            cells.append(_cell(names[column], one, number, card))
        rows.append((names[row], tuple(cells)))
    return Matrix("target" if down is targets else "probe", tuple(names[name] for name in across), tuple(rows))


def _names(targets: Iterable[str]) -> dict[str, str]:
    """The short name of each target, the whole one where two have the same."""
    targets = list(targets)
    short = Counter(short_target(target) for target in targets)
    return {target: short_target(target) if short[short_target(target)] == 1 else target for target in targets}


def _quiet(run: Run) -> list[tuple[str, list[str]]]:
    """Probes and targets of which nothing was found: answered, and sound."""
    loud = [one for one in run.results if one.outcome in (Outcome.REPRODUCED, *_SILENT)]
    asked = [one for one in run.results if one.outcome is Outcome.NOT_REPRODUCED and not one.is_of_source]
    found = {one.target for one in loud if one.outcome is not Outcome.UNAVAILABLE}
    probes = sorted({one.probe for one in asked} - {one.probe for one in loud})
    targets = sorted({one.target for one in asked} - found)
    said = [
        (f"{counted(len(probes), 'probe')} reproduced nowhere", probes),
        (f"nothing of {counted(len(targets), 'target')} reproduced", targets),
    ]
    return [(words, names) for words, names in said if names]


def _arms(run: Run, anchors: Mapping[_Key, str]) -> list[tuple[str, Matrix]]:
    """Findings by torch and device: those that differ, then those that are the same everywhere."""
    labels = tuple(arm.label for arm in run.matrix)
    found = [one for one in run.results if any(arm.outcome is Outcome.REPRODUCED for arm in one.arms)]
    found.sort(key=lambda one: (one.severity or "P9", one.fingerprint))
    tables = []
    for differ, words in ((True, "not the same everywhere"), (False, "the same everywhere")):
        rows = []
        for one in (one for one in found if one.arms_differ is differ):
            said = {arm.arm: arm for arm in one.arms}
            card = anchors.get(_key(one), "")
            cells = (_cell(label, said.get(label), said[label].law if label in said else "", card) for label in labels)
            rows.append((f"{one.probe} of {short_target(one.target)}", tuple(cells)))
        if rows:
            tables.append((f"{counted(len(rows), 'finding')}: {words}", Matrix("finding", labels, tuple(rows))))
    return tables


def _changed_words(changes: Sequence[tuple[Contrast, str, list[str], str]]) -> str:
    counts = Counter(word for _, word, _, _ in changes)
    mixed = f"{counts['mixed']} mixed, " if counts["mixed"] else ""
    return f"{counts['new']} new, {counts['worse']} worse, {mixed}{counts['gone']} gone"


def _change_word(contrast: Contrast) -> str:
    if contrast.change is Change.STILL_REPRODUCED:
        return "changed" if contrast.trend is Trend.MOVED else str(contrast.trend.value)
    return _CHANGES.get(contrast.change, "")


def _changes(comparison: Comparison, anchors: Mapping[_Key, str]) -> list[tuple[Contrast, str, list[str], str]]:
    """What changed, the worst first: the contrast, its word, its figures, and the card of the head."""
    order = ("new", "worse", "mixed", "gone", "better", "changed")
    found = [
        (one, word, list(moved_figures(one)), anchors.get(_key(one), ""))
        for one in comparison.contrasts
        if (word := _change_word(one)) in order
    ]
    return sorted(found, key=lambda item: (order.index(item[1]), item[0].severity or "P9", item[0].probe))


def _silent(run: Run) -> list[tuple[Outcome, str, list[ProbeResult]]]:
    """Questions without an answer, by why."""
    groups: dict[tuple[Outcome, str], list[ProbeResult]] = {}
    for result in run.results:
        if result.outcome in _SILENT:
            groups.setdefault((result.outcome, result.message), []).append(result)
    return [
        (outcome, message, those)
        for (outcome, message), those in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
