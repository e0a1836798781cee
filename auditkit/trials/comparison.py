"""What two results of one probe say of a change: fixed, introduced, still so, or not to be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditkit.model.enums import Outcome
from auditkit.model.figure_trends import compare_figures, overall
from auditkit.model.revisions.comparison import Change, Contrast, Said, Trend
from auditkit.model.runs.run import ProbeResult

_ANSWERS = (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)


def contrast(base: ProbeResult, head: ProbeResult) -> Contrast:
    """Return the change of one probe's result about one target.

    An error, a missing device, and a measurement by another version of the probe, on another device, by other evidence
    or in other dtypes are not comparable.
    """
    before, after = Said.of(base), Said.of(head)
    if base.outcome is head.outcome is Outcome.NOT_APPLICABLE:
        return Contrast(head.probe, before, after, Change.NOT_APPLICABLE, reason=head.message)
    reason = _why_no_answer(base, head) or _why_not_comparable(base, head)
    if reason:
        return Contrast(head.probe, before, after, Change.NOT_COMPARABLE, reason=reason)
    change = _change(base.outcome, head.outcome)
    figures = compare_figures(base.measurements, head.measurements)
    trend = overall(figures, base.severity, head.severity)
    if head.is_of_source and trend in (Trend.SAME, Trend.MOVED):
        trend = _by_places(base, head)
    why = "the check did not apply at the base" if base.outcome is Outcome.NOT_APPLICABLE else ""
    return Contrast(head.probe, before, after, change, trend, why, figures)


def _by_places(base: ProbeResult, head: ProbeResult) -> Trend:
    """A finding of source has a figure for each place: fewer places are better."""
    before, after = len(base.measurements), len(head.measurements)
    if base.outcome is not Outcome.REPRODUCED or head.outcome is not Outcome.REPRODUCED or before == after:
        return Trend.SAME
    return Trend.BETTER if after < before else Trend.WORSE


def contrast_added(head: ProbeResult) -> Contrast:
    """A probe about a target that the base does not have: what it finds there came with it."""
    said = Said.of(head)
    if head.outcome is Outcome.NOT_APPLICABLE:
        return Contrast(head.probe, None, said, Change.NOT_APPLICABLE, reason=head.message)
    figures = compare_figures((), head.measurements)
    if head.outcome is Outcome.REPRODUCED:
        reason = "the target is new"
        return Contrast(head.probe, None, said, Change.INTRODUCED, Trend.WORSE, reason, figures)
    reason = f"the target is new: {_words(head)} at the head"
    return Contrast(head.probe, None, said, Change.NOT_COMPARABLE, reason=reason, figures=figures)


def _change(base: Outcome, head: Outcome) -> Change:
    if head is Outcome.REPRODUCED:
        return Change.STILL_REPRODUCED if base is Outcome.REPRODUCED else Change.INTRODUCED
    return Change.FIXED if base is Outcome.REPRODUCED else Change.STILL_SOUND


def _why_no_answer(base: ProbeResult, head: ProbeResult) -> str:
    """An error or a missing result on either side; a check that no longer applies is not a fix."""
    said = {
        side: f"{_words(result)}: {result.message}"
        for side, result in (("base", base), ("head", head))
        if result.outcome in (Outcome.ERROR, Outcome.UNAVAILABLE)
    }
    if len(said) == 2 and said["base"] == said["head"]:
        return f"at both: {said['head']}"
    if said:
        return "; ".join(f"{side}: {text}" for side, text in said.items())
    if head.outcome is Outcome.NOT_APPLICABLE:
        return f"it does not apply at the head: {head.message}"
    if base.outcome is Outcome.NOT_APPLICABLE and head.outcome is not Outcome.REPRODUCED:
        return f"it did not apply at the base: {base.message}"
    return ""


def _why_not_comparable(base: ProbeResult, head: ProbeResult) -> str:
    if base.probe_version != head.probe_version:
        return f"the probes differ: version {base.probe_version} at the base, {head.probe_version} at the head"
    if base.outcome is Outcome.NOT_APPLICABLE:
        return ""
    if base.device != head.device:
        return f"the devices differ: {base.device} at the base, {head.device} at the head"
    if base.evidence is not head.evidence:
        kinds = [result.evidence.value if result.evidence else "none" for result in (base, head)]
        return f"the evidence differs: {kinds[0]} at the base, {kinds[1]} at the head"
    gone = sorted(_dtypes(base) - _dtypes(head))
    if gone and (base.outcome is Outcome.REPRODUCED or not _dtypes(head)):
        return f"other dtypes: {', '.join(gone)} measured at the base alone"
    return ""


def _dtypes(result: ProbeResult) -> set[str]:
    return {str(one.case["dtype"]) for one in result.measurements if "dtype" in one.case}


def _words(result: ProbeResult) -> str:
    reason = f" ({result.reason.value})" if result.reason else ""
    return f"{result.outcome.value.replace('_', ' ')}{reason}"


def contrast_source(
    base: Sequence[ProbeResult], head: Sequence[ProbeResult], renamed: Mapping[str, str]
) -> tuple[Contrast, ...]:
    """What reading the source says: findings matched by what they are about, `renamed` from base to head."""
    found: list[Contrast] = []
    for probe in dict.fromkeys(result.probe for result in (*base, *head)):
        before, after = ([one for one in side if one.probe == probe] for side in (base, head))
        found += _of_source(before, after, renamed)
    return tuple(found)


def _of_source(base: list[ProbeResult], head: list[ProbeResult], renamed: Mapping[str, str]) -> Iterator[Contrast]:
    before = {renamed.get(one.target, one.target): one for one in base if one.outcome is Outcome.REPRODUCED}
    after = {one.target: one for one in head if one.outcome is Outcome.REPRODUCED}
    for subject in dict.fromkeys((*before, *after)):
        one, other = before.get(subject), after.get(subject)
        if one is not None and other is not None:
            yield contrast(one, other)
        elif one is not None:
            yield _only(one, None, Change.FIXED, _why_one_sided("head", head, base))
        elif other is not None:
            yield _only(None, other, Change.INTRODUCED, _why_one_sided("base", base, head))
    if not before and not after:
        ours, theirs = _best(base), _best(head)
        if ours is not None and theirs is not None:
            yield contrast(ours, theirs)


def _only(one: ProbeResult | None, other: ProbeResult | None, change: Change, reason: str) -> Contrast:
    """A finding of one side; not comparable where the other side was not read."""
    present = one or other
    assert present is not None
    figures = compare_figures(one.measurements if one else (), other.measurements if other else ())
    said = [Said.of(side) if side else None for side in (one, other)]
    change = Change.NOT_COMPARABLE if reason else change
    trend = Trend.SAME if reason else Trend.BETTER if other is None else Trend.WORSE
    return Contrast(present.probe, said[0], said[1], change, trend, reason, figures)


def _why_one_sided(side: str, others: Sequence[ProbeResult], ours: Sequence[ProbeResult]) -> str:
    """Why the side without the finding may not have looked: it could not be read where this one could."""
    known = {result.target for result in ours if result.outcome is Outcome.ERROR}
    errors = [result for result in others if result.outcome is Outcome.ERROR and result.target not in known]
    if errors:
        return "; ".join(f"{side}: {result.message}" for result in errors)
    if not any(result.outcome in _ANSWERS or result.outcome is Outcome.NOT_APPLICABLE for result in others):
        return f"{side}: not run"
    return ""


def _best(results: Sequence[ProbeResult]) -> ProbeResult | None:
    """Of a side without findings: the result that says least good, so that an error is not passed over."""
    order = (Outcome.ERROR, Outcome.UNAVAILABLE, Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE)
    return min(results, key=lambda result: order.index(result.outcome), default=None)
