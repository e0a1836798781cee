"""From a comparison to a review: issues, strengths, the before/after table, and the assessment with its reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from auditkit.model.codec import ABSENT
from auditkit.model.enums import Outcome, Severity
from auditkit.model.revisions.comparison import (
    Agreement,
    AnswerContrast,
    Change,
    Comparison,
    Contrast,
    FigureChange,
    MatchState,
    Trend,
)
from auditkit.model.revisions.implementation_review import (
    Assessment,
    ClaimState,
    FigureRow,
    Group,
    ImplementationReview,
    Issue,
    Requirement,
)
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.text import counted
from auditkit.model.units import format_value
from auditkit.rules.comparison.answer_changes import RAISES
from auditkit.rules.comparison.requirements import in_words
from auditkit.rules.reports.words import listed

_COSTS = ("syncs", "launches", "memory", "transfers", "graphs")
"""The instruments whose figures are what a change costs or saves."""
_DERIVED = ("live_at_peak",)
_IMPACT_TENSORS = (100, 1000)
_LAW = re.compile(r"(?:(?P<slope>[\d.]*)n)?(?:\+?(?P<constant>\d[\d.]*))?")
_GRAVE = Severity.P1


def review_of(
    comparison: Comparison,
    requirements: Sequence[Requirement],
    catalog: Mapping[str, ProbeInfo],
    reviewer: str,
    date: str,
    plan: str = "",
) -> ImplementationReview:
    """Everything that a review says; `catalog` knows the probes' titles, kinds and remedies.

    `plan` is what the change was measured against besides the commits, "" for nothing.
    """
    issues = tuple(sorted(_issues(comparison, catalog), key=lambda one: (one.severity.value, one.probe)))
    assessment, reasons = assess(comparison, requirements)
    return ImplementationReview(
        title=_title_of(comparison),
        reviewer=reviewer,
        date=date,
        plan=plan,
        assessment=assessment,
        reasons=tuple(reasons),
        requirements=tuple(requirements),
        issues=issues,
        strengths=tuple(_strengths(comparison)),
        performance=tuple(_performance(comparison, catalog)),
        impact=tuple(_impact(comparison)),
        groups=tuple(_groups(comparison, catalog)),
        comparison=comparison,
    )


def assess(comparison: Comparison, requirements: Sequence[Requirement]) -> tuple[Assessment, list[str]]:
    """Rejected for a grave new finding, a worse answer, or code that no longer runs; needs work for any other."""
    rejected = [*_grave(comparison), *_worse_answers(comparison)]
    wanting = [*_new_or_worse(comparison), *_unexplained_answers(comparison), *_unmet(requirements)]
    if rejected:
        return Assessment.REJECTED, [*rejected, *wanting]
    if wanting:
        return Assessment.NEEDS_WORK, wanting
    return Assessment.APPROVED, list(_why_approved(comparison, requirements))


def _grave(comparison: Comparison) -> Iterator[str]:
    for one in comparison.contrasts:
        if one.is_worse and one.severity and one.severity.at_least(_GRAVE) and one.change is Change.INTRODUCED:
            yield f"{one.severity.value} introduced: {one.probe} on {one.target}"
        broken = one.head is not None and one.head.outcome is Outcome.ERROR
        sound_before = one.base is not None and one.base.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)
        if broken and sound_before and one.head is not None:
            yield f"{one.probe} was answered at the base and ends in an error at the head: {one.head.message}"


def _worse_answers(comparison: Comparison) -> Iterator[str]:
    for target in comparison.targets:
        wrong = [one for one in target.answers if one.agreement is Agreement.DIFFERS and one.nearer == "base"]
        if wrong:
            yield f"{len(wrong)} answers of {target.match.name} are further from the exact norm than before"


def _new_or_worse(comparison: Comparison) -> Iterator[str]:
    for one in sorted(comparison.contrasts, key=lambda one: str(one.severity)):
        if one.is_worse and one.severity:
            grave = one.change is Change.INTRODUCED and one.severity.at_least(_GRAVE)
            if not grave:
                word = "introduced" if one.change is Change.INTRODUCED else "worse"
                yield f"{one.severity.value} {word}: {one.probe} on {one.target}"


def _unexplained_answers(comparison: Comparison) -> Iterator[str]:
    for target in comparison.targets:
        apart = [one for one in target.answers if _is_unexplained(one)]
        differing = [one for one in apart if one.agreement is Agreement.DIFFERS]
        if differing:
            yield f"{len(differing)} numbers of {target.match.name} differ, and nothing measured says which is right"
        # A call that raises has no field at all: that is told once.
        raising = {repr(one.case): one.agreement for one in apart if one.field == RAISES}
        lost = [one for one in apart if repr(one.case) not in raising]
        for only, side, other in ((Agreement.ONLY_BASE, "base", "head"), (Agreement.ONLY_HEAD, "head", "base")):
            count = sum(agreement is only for agreement in raising.values())
            if count:
                yield f"{target.match.name} raises at the {side} alone, in {counted(count, 'case')}"
            fields = dict.fromkeys(one.field or "number" for one in lost if one.agreement is only)
            if fields:
                yield f"the answer of {target.match.name} has no {listed(fields)} at the {other}"


def _is_unexplained(answer: AnswerContrast) -> bool:
    return not (answer.agrees or (answer.agreement is Agreement.DIFFERS and answer.nearer))


def _unmet(requirements: Iterable[Requirement]) -> Iterator[str]:
    for one in requirements:
        if one.state is ClaimState.REFUTED and one.origin != "probe":
            yield f"not met ({one.origin}): {one.text}"
        elif one.state is ClaimState.UNTESTED and one.origin not in ("probe", "commit message"):
            yield f"not tested ({one.origin}): {one.text}"


def _why_approved(comparison: Comparison, requirements: Sequence[Requirement]) -> Iterator[str]:
    yield "nothing was introduced and nothing got worse"
    asked = [one for one in requirements if one.origin != "probe"]
    if asked:
        met = sum(one.state is ClaimState.CONFIRMED for one in asked)
        yield f"{met} of {len(asked)} requirements are met, none is refuted"
    answers = [answer for target in comparison.targets for answer in target.answers]
    if answers:
        agree = sum(one.agrees for one in answers)
        nearer = sum(one.nearer == "head" for one in answers)
        yield f"{agree} of {len(answers)} answers agree{f', {nearer} are nearer the exact norm' if nearer else ''}"


def _issues(comparison: Comparison, catalog: Mapping[str, ProbeInfo]) -> Iterator[Issue]:
    """Every finding that is there at the head."""
    for one in comparison.contrasts:
        if one.change not in (Change.INTRODUCED, Change.STILL_REPRODUCED) or one.head is None or not one.severity:
            continue
        probe = catalog.get(one.probe)
        change = "introduced" if one.change is Change.INTRODUCED else f"there before, {one.trend.value}"
        yield Issue(
            severity=one.severity,
            probe=one.probe,
            title=probe.title if probe else one.probe,
            target=one.target,
            change=change,
            message=one.head.message,
            remedy=probe.remediation if probe else "",
            evidence=one.evidence,
            location=one.head.location,
        )


def _strengths(comparison: Comparison) -> Iterator[str]:
    for one in comparison.contrasts:
        if one.change is Change.FIXED or (one.trend is Trend.BETTER and _is_cheaper_or_found(one)):
            yield f"{one.probe}: {in_words(one)} ({one.evidence})"
    for target in comparison.targets:
        agree = [one for one in target.answers if one.agrees]
        if target.answers and len(agree) == len(target.answers):
            yield f"all {len(agree)} numbers that {target.match.name} answers agree within rounding (measured)"
    kept = sum(one.change is Change.STILL_SOUND for one in comparison.contrasts)
    if kept:
        yield f"{kept} of the probes found nothing before and find nothing now"
    added = [test for test in comparison.changes.tests if test.kind == "added"]
    if added:
        yield f"{len(added)} test{'' if len(added) == 1 else 's'} added"


def _is_cheaper_or_found(contrast: Contrast) -> bool:
    """A finding that got better, or a law of what was sound before."""
    has_law = contrast.base is not None and bool(contrast.base.law)
    return contrast.change is Change.STILL_REPRODUCED or (contrast.change is Change.STILL_SOUND and has_law)


def _performance(comparison: Comparison, catalog: Mapping[str, ProbeInfo]) -> Iterator[FigureRow]:
    """What each call costs: laws first, then the figures behind them."""
    for target in comparison.targets:
        for one in target.contrasts:
            probe = catalog.get(one.probe)
            if probe is None or probe.instrument not in _COSTS or one.base is None or one.head is None:
                continue
            if one.base.law and one.head.law:
                yield _law_row(one, target.match.name)
            for figure in one.figures:
                if _is_shown(figure):
                    yield _figure_row(figure, target.match.name)


def _is_shown(figure: FigureChange) -> bool:
    if ABSENT in (figure.base, figure.head) or figure.name.endswith("_law") or figure.name in _DERIVED:
        return False
    is_number = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (figure.base, figure.head))
    return is_number and (figure.trend is not Trend.SAME or figure.name.endswith(("sync_count", "launch_count")))


def _law_row(contrast: Contrast, target: str) -> FigureRow:
    assert contrast.base is not None
    assert contrast.head is not None
    trend = contrast.trend.value
    return FigureRow(target, contrast.probe, "law", contrast.base.law, contrast.head.law, trend, contrast.evidence)


def _figure_row(figure: FigureChange, target: str) -> FigureRow:
    case = ", ".join(f"{name}={format_value(value)}" for name, value in figure.case.items()
                     if name != "device" and len(str(value)) <= 40)  # fmt: skip
    before, after = (format_value(value, figure.unit) for value in (figure.base, figure.head))
    return FigureRow(target, figure.name, case, before, after, figure.trend.value, figure.evidence.value)


def _impact(comparison: Comparison) -> Iterator[FigureRow]:
    """Laws continued to the numbers of tensors that models have."""
    for target in comparison.targets:
        for one in target.contrasts:
            lines = [_line(side.law) if side else None for side in (one.base, one.head)]
            if lines[0] is None or lines[1] is None or not any(slope for line in lines if line for slope in line[:1]):
                continue
            for tensors in _IMPACT_TENSORS:
                before, after = (line[0] * tensors + line[1] for line in lines if line)
                yield FigureRow(
                    target.match.name, one.probe, f"{tensors:,} tensors", f"{before:,.0f}", f"{after:,.0f}",
                    "better" if after < before else "worse" if after > before else "same", "extrapolated",
                )  # fmt: skip


def _line(law: str) -> tuple[float, float] | None:
    """(per tensor, constant) of a law in n, None for any other."""
    found = _LAW.fullmatch(law) if law else None
    if found is None:
        return None
    slope = found["slope"]
    per_tensor = 0.0 if slope is None else float(slope or 1)
    return per_tensor, float(found["constant"] or 0)


def _groups(comparison: Comparison, catalog: Mapping[str, ProbeInfo]) -> Iterator[Group]:
    """By the first category of each probe."""
    groups: dict[str, list[Contrast]] = {}
    for one in comparison.contrasts:
        probe = catalog.get(one.probe)
        if probe is not None and probe.categories and one.change in _ANSWERED:
            groups.setdefault(probe.categories[0], []).append(one)
    for name in sorted(groups):
        answered = groups[name]
        before = sum(one.change in (Change.STILL_SOUND, Change.INTRODUCED) for one in answered)
        after = sum(one.change in (Change.STILL_SOUND, Change.FIXED) for one in answered)
        yield Group(name, len(answered), before, after)


_ANSWERED = (Change.FIXED, Change.INTRODUCED, Change.STILL_REPRODUCED, Change.STILL_SOUND)


def _title_of(comparison: Comparison) -> str:
    """What the change calls itself: the subject of its only commit, else its targets."""
    commits = comparison.changes.commits
    if len(commits) == 1:
        return commits[0].subject
    names = [target.match.name.rpartition(":")[2] for target in comparison.targets]
    there = [one.match.name for one in comparison.targets if one.match.state is not MatchState.REMOVED]
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return listed if there or names else comparison.checkout
