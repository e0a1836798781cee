"""The page of a comparison: what was required, what changed, what it costs, and what was there before."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from auditkit.model.answer_changes import RAISES
from auditkit.model.codec import ABSENT
from auditkit.model.revisions.comparison import (
    Agreement,
    AnswerContrast,
    Change,
    Contrast,
    FigureChange,
    MatchState,
    TargetComparison,
    Trend,
    count_agreements,
    relative_difference,
)
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted, listed
from auditkit.model.units import format_value
from auditkit.reports.page import Block, Code, Items, Page, Section, Span, Spans, Strong, Table, Text
from auditkit.reports.requirements import BEFORE, State
from auditkit.reports.review_parts import Review

_COSTS = ("syncs", "launches", "memory", "transfers", "graphs")
"""Instruments whose figures are what a call costs."""
_MOST_ANSWERS, _MOST_COSTS, _MOST_FIGURES, _MOST_NAMED, _LONGEST_CASE = 6, 30, 3, 12, 40
_WORDS = {Change.INTRODUCED: "new", Change.FIXED: "fixed", Change.NOT_COMPARABLE: "cannot be compared"}
_ORDER = ("new", "worse", "mixed", "cannot be compared", "fixed", "better")


def comparison_page(review: Review, probes: Mapping[str, ProbeInfo]) -> Page:
    """The page of a review; `probes` know titles, instruments and advice."""
    comparison = review.comparison
    commits = comparison.changes.commits
    names = [comparison.base.revision[:12] or "base", comparison.head.revision[:12] or "head"]
    title = commits[0].subject if len(commits) == 1 else f"{names[0]} to {names[1]}"
    sections = (
        _requirements(review),
        _changed(review, probes),
        _costs(review, probes),
        _results(review),
        _change(review),
    )
    return Page(
        title=f"{PurePath(comparison.checkout).name or comparison.checkout}: {title}",
        summary=tuple(_summary(review)),
        facts=tuple(_facts(review)),
        sections=tuple(section for section in sections if section.blocks),
    )


def _summary(review: Review) -> Iterator[str]:
    """At most five sentences: the assessment, what changed, what was required, what is returned, the tests."""
    comparison = review.comparison
    more = f" (and {len(review.reasons) - 2} more reasons)" if len(review.reasons) > 2 else ""
    yield f"{review.assessment.value.capitalize()}: {'; '.join(review.reasons[:2])}{more}."
    counts = Counter(_word(one) for one in comparison.contrasts)
    became = ", ".join(
        f"{counts[word]} {word}" for word in ("new", "worse", "mixed", "fixed", "better") if counts[word]
    )
    others = f"; {comparison.untouched:,} others are not touched by the change" if comparison.untouched else ""
    yield f"{counted(len(comparison.targets), 'function')} and its source: {became or 'no finding changed'}{others}."
    asked = [one for one in review.requirements if one.origin != "probe"]
    if asked:
        states = Counter(one.state for one in asked)
        before = sum(one.message.startswith(BEFORE) for one in asked)
        parts = [f"{states[state]} {state.value}" for state in (State.MET, State.NOT_MET, State.NOT_MEASURABLE)]
        yield f"Of {counted(len(asked), 'requirement')}, {', '.join(parts)}; {before} of them {BEFORE}."
    agreed = count_agreements(answer for target in comparison.targets for answer in target.answers)
    total = sum(agreed.values())
    if total:
        same = agreed[Agreement.IDENTICAL.value] + agreed[Agreement.WITHIN.value]
        yield f"Of {total:,} numbers that both revisions return for the same gradients, {same:,} agree within rounding."
    yield f"The tests of the checkout: {review.tests}." if review.tests else "The tests of the checkout were not run."


def _facts(review: Review) -> Iterator[tuple[str, Spans]]:
    comparison = review.comparison
    for name, side in (("Base", comparison.base), ("Head", comparison.head)):
        dirty = ", with uncommitted changes" if side.dirty else ""
        yield name, (Code(side.checkout), " at ", Code(side.revision[:12] or "no revision"), dirty)
    head = comparison.head
    machine = f"torch {head.torch}, Python {head.python}, {head.device_name}" if head.torch else "the source was read"
    yield "Measured with", (machine,)


def _requirements(review: Review) -> Section:
    rows = tuple(
        (
            Strong(one.state.value),
            f" ({one.origin}): {one.text}: {one.message}{f' ({one.evidence})' * bool(one.evidence)}",
        )
        for one in review.requirements
    )
    return Section("Requirements", (Items(rows),) if rows else (), anchor="requirements")


def _word(one: Contrast) -> str:
    if one.change is Change.STILL_REPRODUCED:
        return {Trend.SAME: "there before", Trend.MOVED: "there before"}.get(one.trend, one.trend.value)
    if one.change is Change.STILL_SOUND:
        has_law = one.base is not None and bool(one.base.law)
        return "better" if one.trend is Trend.BETTER and has_law else "sound"
    return _WORDS.get(one.change, "")


def _changed(review: Review, probes: Mapping[str, ProbeInfo]) -> Section:
    """A card for each result that changed; what was there before is one line."""
    words = [(one, _word(one)) for one in review.comparison.contrasts]
    changed = [pair for pair in words if pair[1] in _ORDER]
    changed.sort(key=lambda pair: (_ORDER.index(pair[1]), pair[0].severity or "P9", pair[0].probe))
    blocks: list[Block] = [_card(one, word, probes) for one, word in changed]
    before = [
        f"{one.severity or ''} {one.probe} of {short_target(one.target)}"
        for one, word in words
        if word == "there before"
    ]
    if before:
        blocks.append(Text((Strong("There before:"), f" {listed(before, _MOST_NAMED)}.")))
    sound = sum(word == "sound" for _, word in words)
    if sound:
        blocks.append(Text((f"{counted(sound, 'check')} found nothing before and nothing now.",)))
    return Section("What changed", tuple(blocks), anchor="changes")


def _card(one: Contrast, word: str, probes: Mapping[str, ProbeInfo]) -> Section:
    probe = probes.get(one.probe)
    place = one.head.location if one.head else None
    lead: Spans = (Code(f"{place.file}:{place.line}"), "; ") if place else ()
    law = laws(one)
    rows: list[Spans] = [(Strong("law"), f" {law}")] if law else []
    rows += [(Strong(name), f" {side.message}") for name, side in (("base", one.base), ("head", one.head)) if side]
    rows += [(one.reason,)] if one.reason else []
    if one.change not in (Change.INTRODUCED, Change.FIXED):
        rows += [(figure,) for figure in _moved_figures(one)]
    advice = probe.remediation if probe and word in ("new", "worse", "mixed") else ""
    return Section(
        title=f"{word}: {probe.title if probe else one.probe} ({short_target(one.target)})",
        blocks=(Items(tuple(rows)), *((Text((Strong("Advice:"), f" {advice}")),) if advice else ())),
        severity=(one.severity or "P4"),
        lead=(*lead, Code(one.probe), f", {one.evidence}" if one.evidence else ""),
    )


def laws(contrast: Contrast) -> str:
    """`3n+1 -> 5` of a probe that fits a law, "" of any other; words that both end in are said once."""
    if contrast.base is None or contrast.head is None or not (contrast.base.law and contrast.head.law):
        return ""
    one, other = contrast.base.law, contrast.head.law
    words = one.removeprefix("about ").partition(" ")[2]
    if words and other.endswith(words):
        one = one.removesuffix(f" {words}")
    return f"{one} -> {other}"


def _moved_figures(contrast: Contrast) -> Iterator[str]:
    """Return a line for each of the first figures that got worse or better, and the number of the others."""
    moved = [one for trend in (Trend.WORSE, Trend.BETTER) for one in contrast.figures if one.trend is trend]
    yield from map(_figure_line, moved[:_MOST_FIGURES])
    if len(moved) > _MOST_FIGURES:
        yield f"and {len(moved) - _MOST_FIGURES} more figures"


def _figure_line(figure: FigureChange) -> str:
    """`sync_count: 4 -> 1 (tensors=4): better`; a case's long texts are left out."""
    sides = [_value(value, figure.unit) for value in (figure.base, figure.head)]
    texts = {name: _value(value, "") for name, value in figure.case.items() if name != "device"}
    case = ", ".join(f"{name}={text}" for name, text in texts.items() if text and len(text) <= _LONGEST_CASE)
    trend = "" if figure.trend is Trend.SAME else f": {figure.trend.value}"
    return f"{figure.name}: {sides[0]} -> {sides[1]}{f' ({case})' if case else ''}{trend}"


def _value(value: object, unit: str) -> str:
    return "not measured" if value is ABSENT else format_value(value, unit)


def _answer_line(answer: AnswerContrast) -> str:
    """`grad_norm: inf -> 6.4e+21 (magnitudes, magnitude=1e+20; exact norm 6.4e+21, the head is nearer)`."""
    case = ", ".join(f"{name}={_value(value, '')}" for name, value in answer.case.items()
                     if name not in ("device", "family"))  # fmt: skip
    sides = [_value(value, "") for value in (answer.base, answer.head)]
    nearer = f", the {answer.nearer} is nearer" if answer.nearer else ""
    field = answer.field or "the result"
    exact = f"; exact norm {answer.exact:.6g}{nearer}" if not math.isnan(answer.exact) else ""
    return f"{field}: {sides[0]} -> {sides[1]} ({answer.family}, {case}{exact})"


def _costs(review: Review, probes: Mapping[str, ProbeInfo]) -> Section:
    """What each call costs: laws first, then the figures behind them that moved."""
    rows: list[tuple[Span, ...]] = []
    for target in review.comparison.targets:
        for one in target.contrasts:
            probe = probes.get(one.probe)
            if probe is None or probe.instrument not in _COSTS or one.base is None or one.head is None:
                continue
            name = short_target(target.match.name)
            if one.base.law and one.head.law:
                rows.append((f"law of {name}", one.probe, one.base.law, one.head.law, one.trend.value, one.evidence))
            for each in filter(_is_shown, one.figures):
                sides = (format_value(each.base, each.unit), format_value(each.head, each.unit))
                rows.append((name, f"{each.name} ({_case(each)})", *sides, each.trend.value, each.evidence.value))
    head = ("Function", "Figure", "Before", "After", "Change", "Evidence")
    return Section("Cost of a call", (Table(head, tuple(rows[:_MOST_COSTS])),) if rows else (), anchor="costs")


def _is_shown(figure: FigureChange) -> bool:
    values = (figure.base, figure.head)
    is_number = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    return ABSENT not in values and is_number and figure.trend is not Trend.SAME and not figure.name.endswith("_law")


def _case(figure: FigureChange) -> str:
    shown = ((name, format_value(value)) for name, value in figure.case.items() if name != "device")
    return ", ".join(f"{name}={text}" for name, text in shown if len(text) <= _LONGEST_CASE)


def _results(review: Review) -> Section:
    """What each function returns for the same gradients at both revisions, and what callers see of the change."""
    rows: list[Spans] = []
    for target in review.comparison.targets:
        name = Code(target.match.name)
        rows.append((name, f": {target.match.describe()}{''.join(f'; {each}' for each in _interface(target))}"))
        if target.answers:
            apart = [one for one in target.answers if not one.agrees]
            largest = max(
                (relative_difference(one.base, one.head) for one in target.answers if one.agrees), default=0.0
            )
            rows.append((f"{len(target.answers) - len(apart)} of {len(target.answers)} numbers agree (at most "
                         f"{largest:.2g} apart){':' if apart else ''}",))  # fmt: skip
            rows += [(_answer_line(one),) for one in apart[:_MOST_ANSWERS]]
            rows += [(f"and {len(apart) - _MOST_ANSWERS} more",)] if len(apart) > _MOST_ANSWERS else []
    return Section("What the functions return", (Items(tuple(rows)),) if rows else (), anchor="results")


def _interface(target: TargetComparison) -> Iterator[str]:
    """How the signature and the returned fields changed."""
    before, after = target.match.base_text, target.match.head_text
    if before is not None and after is not None and before.signature != after.signature:
        yield f"signature changed: {before.signature} is now {after.signature}"
    if target.match.state in (MatchState.MOVED, MatchState.RENAMED):
        yield f"{target.match.base} is now {target.match.head}"
    fields = [
        {one.field or "the result" for one in target.answers if one.agreement is not other and one.field != RAISES}
        for other in (Agreement.ONLY_HEAD, Agreement.ONLY_BASE)
    ]
    for word, names in (("no longer returned", fields[0] - fields[1]), ("new in the result", fields[1] - fields[0])):
        if names:
            yield f"{word}: {', '.join(sorted(names))}"


def _change(review: Review) -> Section:
    """Commits and files of the change, and the notes of both runs."""
    changes = review.comparison.changes
    rows: list[Spans] = []
    for commit in changes.commits[:_MOST_NAMED]:
        rows.append((Code(commit.hash[:12]), f" {commit.subject} ({commit.author}, {commit.date})"))
    if len(changes.commits) > _MOST_NAMED:
        rows.append((f"{len(changes.commits) - _MOST_NAMED} more commits",))
    for file in changes.files[:_MOST_NAMED]:
        rows.append((Code(file.name), f" ({file.describe()})"))
    if len(changes.files) > _MOST_NAMED:
        rows.append((f"{len(changes.files) - _MOST_NAMED} more files",))
    rows += [(note,) for note in review.comparison.notes]
    return Section("The change", (Items(tuple(rows)),) if rows else (), anchor="change")
