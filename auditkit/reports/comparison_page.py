"""The page of a comparison: what was required, what changed, the numbers behind it, and what the functions return."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from auditkit.model.codec import ABSENT
from auditkit.model.revisions.comparison import (
    AnswerContrast,
    Change,
    Contrast,
    Trend,
    relative_difference,
)
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted, listed
from auditkit.model.units import format_value
from auditkit.reports.page import Block, Page, Section, bold, first, items, paragraph, table, text
from auditkit.reports.review import BEFORE, Review, State
from auditkit.reports.run_page import checkout_in_words, machine_in_words
from auditkit.tickets.markdown import code

_MOST_ANSWERS, _MOST_NAMED, _LONGEST_CASE = 6, 12, 40
_WORDS = {Change.INTRODUCED: "new", Change.FIXED: "fixed", Change.NOT_COMPARABLE: "cannot be compared"}
_ORDER = ("new", "worse", "mixed", "cannot be compared", "fixed", "better")


def comparison_page(review: Review, probes: Mapping[str, ProbeInfo]) -> Page:
    """The page of a review; `probes` know titles and advice."""
    comparison = review.comparison
    commits = comparison.changes.commits
    names = [comparison.base.revision[:12] or "base", comparison.head.revision[:12] or "head"]
    title = commits[0].subject if len(commits) == 1 else f"{names[0]} to {names[1]}"
    required = (f"{bold(one.state.value)} {text(f'{one.text}: {one.message}')}" for one in review.requirements)
    sections = (
        Section("Requirements", (items(required),)),
        Section("What changed", tuple(_changed(review, probes))),
        Section("Numbers that changed", (_numbers(review),)),
        Section("What the functions return", (items(_results(review)),)),
        Section("The change", (items(_change(review)),)),
    )
    facts = (
        ("Base:", checkout_in_words(comparison.base)),
        ("Head:", checkout_in_words(comparison.head)),
        ("Measured with:", machine_in_words(comparison.head)),
    )
    name = PurePath(comparison.checkout).name or comparison.checkout
    return Page(f"{name}: {title}", tuple(_summary(review)), facts, sections)


def _summary(review: Review) -> Iterator[str]:
    """At most five sentences: the assessment, what changed, what was required, what is returned, the tests."""
    comparison = review.comparison
    more = f" (and {len(review.reasons) - 2} more reasons)" if len(review.reasons) > 2 else ""
    yield f"{review.assessment.value.capitalize()}: {'; '.join(review.reasons[:2])}{more}."
    words = Counter(_word(one) for one in comparison.contrasts)
    became = ", ".join(f"{words[word]} {word}" for word in _ORDER if words[word])
    others = f"; {comparison.untouched:,} others are not touched by the change" if comparison.untouched else ""
    yield f"{counted(len(comparison.targets), 'function')} and its source: {became or 'no finding changed'}{others}."
    if review.requirements:
        states = Counter(one.state for one in review.requirements)
        parts = [f"{states[state]} {state.value}" for state in (State.MET, State.NOT_MET, State.NOT_MEASURABLE)]
        before = sum(one.message.startswith(BEFORE) for one in review.requirements)
        yield f"Of {counted(states.total(), 'requirement')}, {', '.join(parts)}; {before} of them {BEFORE}."
    answers = [one for target in comparison.targets for one in target.answers]
    if answers:
        agreeing = sum(one.agrees for one in answers)
        yield f"Of {len(answers)} numbers of both revisions for the same gradients, {agreeing} agree within rounding."
    yield f"The tests of the checkout: {review.tests}." if review.tests else "The tests of the checkout were not run."


def _word(one: Contrast) -> str:
    if one.change is Change.STILL_REPRODUCED:
        return "there before" if one.trend in (Trend.SAME, Trend.MOVED) else one.trend.value
    if one.change is Change.STILL_SOUND:
        has_law = one.base is not None and bool(one.base.law)
        return "better" if one.trend is Trend.BETTER and has_law else "sound"
    return _WORDS.get(one.change, "")


def _changed(review: Review, probes: Mapping[str, ProbeInfo]) -> Iterator[Block]:
    """A card for each result that changed; what was there before is one line."""
    words = [(one, _word(one)) for one in review.comparison.contrasts]
    changed = [pair for pair in words if pair[1] in _ORDER]
    changed.sort(key=lambda pair: (_ORDER.index(pair[1]), pair[0].severity or "P9", pair[0].probe))
    yield from (_card(one, word, probes.get(one.probe)) for one, word in changed)
    before = [f"{one.severity or ''} {one.probe} of {short_target(one.target)}" for one, word in words
              if word == "there before"]  # fmt: skip
    if before:
        yield paragraph(f"{bold('There before:')} {text(listed(before, _MOST_NAMED))}.")
    sound = sum(word == "sound" for _, word in words)
    if sound:
        yield f"{counted(sound, 'check')} found nothing before and nothing now."


def _card(one: Contrast, word: str, probe: ProbeInfo | None) -> Section:
    place = one.head.location if one.head else None
    lead = f"{code(f'{place.file}:{place.line}')}; " if place else ""
    rows = [f"{bold(name)} {text(side.message)}" for name, side in (("base", one.base), ("head", one.head)) if side]
    if one.base is not None and one.head is not None and one.base.law and one.head.law:
        rows.insert(0, f"{bold('law')} {text(f'{one.base.law} -> {one.head.law}')}")
    rows += [text(one.reason)] if one.reason else []
    blocks = [paragraph(f"{lead}{code(one.probe)}{f', {one.evidence}' if one.evidence else ''}"), items(rows)]
    if probe is not None and probe.remediation and word in ("new", "worse", "mixed"):
        blocks.append(paragraph(f"{bold('Advice:')} {text(probe.remediation)}"))
    title = f"{word}: {probe.title if probe else one.probe} ({short_target(one.target)})"
    return Section(title, blocks, one.severity or "P4")


def _numbers(review: Review) -> str:
    """The figures that got better or worse, of findings first."""
    rows = []
    for one in sorted(review.comparison.contrasts, key=lambda one: str(one.severity or "P9")):
        for each in one.figures:
            sides = [_value(value, each.unit) for value in (each.base, each.head)]
            if each.trend not in (Trend.SAME, Trend.MOVED) and ABSENT not in (each.base, each.head):
                case = _case(each.case, "device")
                name = f"{each.name} ({case})" if case else each.name
                rows.append((short_target(one.target), name, *sides, each.trend.value, each.evidence.value))
    return table(("Function", "Figure", "Before", "After", "Change", "Evidence"), rows)


def _value(value: object, unit: str = "") -> str:
    return "not measured" if value is ABSENT else format_value(value, unit)


def _case(case: Mapping[str, object], *left_out: str) -> str:
    texts = {name: _value(value) for name, value in case.items() if name not in left_out}
    return ", ".join(f"{name}={words}" for name, words in texts.items() if words and len(words) <= _LONGEST_CASE)


def _results(review: Review) -> Iterator[str]:
    """What each function returns for the same gradients at both revisions, and what callers see of the change."""
    for target in review.comparison.targets:
        match, before, after = target.match, target.match.base_text, target.match.head_text
        became = match.describe()
        if before is not None and after is not None and before.signature != after.signature:
            became += f"; signature changed: {before.signature} is now {after.signature}"
        yield f"{code(match.name)}: {text(became)}"
        if target.answers:
            apart = [one for one in target.answers if not one.agrees]
            agreeing = [relative_difference(one.base, one.head) for one in target.answers if one.agrees]
            yield (f"{len(agreeing)} of {len(target.answers)} numbers agree (at most {max(agreeing, default=0.0):.2g} "
                   f"apart){':' if apart else ''}")  # fmt: skip
            yield from first([_answer_line(one) for one in apart], _MOST_ANSWERS, "and {} more")


def _answer_line(one: AnswerContrast) -> str:
    """`grad_norm: inf -> 6.4e+21 (magnitudes, magnitude=1e+20; exact norm 6.4e+21, the head is nearer)`."""
    nearer = f", the {one.nearer} is nearer" if one.nearer else ""
    exact = f"; exact norm {one.exact:.6g}{nearer}" if not math.isnan(one.exact) else ""
    case = f"{one.family}, {_case(one.case, 'device', 'family')}{exact}"
    return text(f"{one.field or 'the result'}: {_value(one.base)} -> {_value(one.head)} ({case})")


def _change(review: Review) -> Iterator[str]:
    """Commits and files of the change, and the notes of both runs."""
    changes = review.comparison.changes
    commits = [f"{code(one.hash[:12])} {text(f'{one.subject} ({one.author}, {one.date})')}" for one in changes.commits]
    files = [f"{code(one.name)} ({text(one.describe())})" for one in changes.files]
    yield from (*first(commits, _MOST_NAMED, "{} more commits"), *first(files, _MOST_NAMED, "{} more files"))
    yield from map(text, review.comparison.notes)
