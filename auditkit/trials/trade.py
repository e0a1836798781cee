"""What a fix is worth: what of its findings is gone, and what got worse for it. Pure functions over results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.revisions.trial import ChangeKind, FixVerdict, Judgement, ProbeChange
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import ProbeResult
from auditkit.model.text import listed

MEMORY = "peak_memory_grows_with_params"


# Synchronizations and launches per tensor are counted, so any growth is real. A peak is a ratio to the gradients'
# bytes: 0.05 of them is less than what a handful of scalars adds on small models.
_QUANTITIES: Mapping[str, tuple[str, float, float]] = {
    "syncs_grow_with_tensors": ("sync_count", 1.0, 0.0),
    "launches_grow_with_tensors": ("launch_count_law", 1.0, 0.0),
    MEMORY: ("peak_extra_per_gradient_byte", 1.05, 0.05),
}
"""The measurement that shows the growth, and by which factor and by how much it has to grow."""
_ANSWERED = (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE)


ANSWER = "answer"
"""In place of a probe's id: the result itself lost a field, or a correct result changed."""


def judge(
    findings: Collection[str],
    base: Sequence[ProbeResult],
    arm: Sequence[ProbeResult],
    lost: Sequence[str] = (),
    changed: Sequence[str] = (),
) -> Judgement:
    """The verdict on one arm; `findings` are the ids of the probes that the ticket is about.

    `lost` are roles (`nan_count`) that the base's result has and the arm's lacks; `changed` are the correct results
    that differ. Both are costs.

    An error or an absence is never a pass: if a finding's probe has no result, the fix does not run.
    """
    changes = _changes(findings, base, arm, lost, changed)
    silent = [change for change in changes if change.is_finding and change.kind is ChangeKind.LOST]
    if silent:
        return does_not_run(silent[0].told, changes)
    gone = [change for change in changes if change.is_finding and change.kind is ChangeKind.GONE]
    left = [change for change in changes if change.is_finding and change.arm is Outcome.REPRODUCED]
    costs = [change for change in changes if not change.is_finding and _is_cost(change)]
    parts = [f"{change.probe} still reproduces: {change.told}" for change in left]
    told = "; ".join([*parts, *(f"{change.probe} no longer reproduces" for change in gone), *map(_cost, costs)])
    if left:
        return Judgement(FixVerdict.INSUFFICIENT, "insufficient", told, changes)
    if not gone:
        raise ValueError("no finding of the ticket reproduces at the base")
    if costs:
        gains, prices = (listed(dict.fromkeys(change.noun for change in part)) for part in (gone, costs))
        return Judgement(FixVerdict.TRADES, f"trades {gains} for {prices}", told, changes)
    return Judgement(FixVerdict.SUFFICIENT, "sufficient", told, changes)


def costs_of(base: Sequence[ProbeResult], arm: Sequence[ProbeResult]) -> list[str]:
    """Return what got worse for a target that the fix is not about, as `judge` would say it."""
    return [_cost(change) for change in _changes((), base, arm, (), ()) if _is_cost(change)]


def _changes(
    findings: Collection[str],
    base: Sequence[ProbeResult],
    arm: Sequence[ProbeResult],
    lost: Sequence[str],
    changed: Sequence[str],
) -> tuple[ProbeChange, ...]:
    def worst(pair: tuple[ProbeResult, ProbeResult]) -> tuple[str, str]:
        """What began to reproduce has its severity only in the arm."""
        return min((result.severity or Severity.P4).value for result in pair), pair[0].probe

    at_arm = {result.probe: result for result in arm}
    pairs = [(before, at_arm[before.probe]) for before in base if before.probe in at_arm]
    changes = tuple(_change(before, after, before.probe in findings) for before, after in sorted(pairs, key=worst))
    costs = [(f"it no longer returns {', '.join(lost)}", f"the result's {', '.join(lost)}")] if lost else []
    costs += [(f"correct results differ, such as {changed[0]}", "correct results")] if changed else []
    outcomes = Outcome.NOT_REPRODUCED, Outcome.ERROR
    return changes + tuple(ProbeChange(ANSWER, *outcomes, ChangeKind.LOST, told, noun) for told, noun in costs)


def does_not_run(reason: str, changes: tuple[ProbeChange, ...] = ()) -> Judgement:
    """The verdict on code that cannot be completed or loaded, or that returns nothing."""
    return Judgement(FixVerdict.DOES_NOT_RUN, FixVerdict.DOES_NOT_RUN.value, reason, changes)


def _is_cost(change: ProbeChange) -> bool:
    return change.kind in (ChangeKind.INTRODUCED, ChangeKind.WORSE, ChangeKind.LOST)


def _change(base: ProbeResult, arm: ProbeResult, is_finding: bool) -> ProbeChange:
    kind = _kind(base, arm)
    return ProbeChange(base.probe, base.outcome, arm.outcome, kind, _told(base, arm), base.probe, is_finding)


def _kind(base: ProbeResult, arm: ProbeResult) -> ChangeKind:
    if arm.outcome not in _ANSWERED:
        return ChangeKind.LOST if base.outcome in _ANSWERED else ChangeKind.SAME
    if base.outcome is Outcome.REPRODUCED and arm.outcome is not Outcome.REPRODUCED:
        # What the probe does not apply to any more was not seen to be gone.
        return ChangeKind.GONE if arm.outcome is Outcome.NOT_REPRODUCED else ChangeKind.LOST
    if base.outcome is not Outcome.REPRODUCED and arm.outcome is Outcome.REPRODUCED:
        return ChangeKind.INTRODUCED
    grown = _growth(base, arm)
    # If a peak is not a finding, the probe's policy allows it.
    if grown > 0 and not (base.probe == MEMORY and arm.outcome is not Outcome.REPRODUCED):
        return ChangeKind.WORSE
    if base.outcome is Outcome.REPRODUCED:
        return ChangeKind.STILL
    return ChangeKind.BETTER if grown < 0 else ChangeKind.SAME


def _growth(base: ProbeResult, arm: ProbeResult) -> int:
    """1 where the probe's quantity grew by more than its limits in the largest case that both measured, -1 or 0."""
    if base.probe not in _QUANTITIES:
        return 0
    name, factor, least = _QUANTITIES[base.probe]
    before, after = (_by_case(result.measurements, name) for result in (base, arm))
    largest = max(before.keys() & after.keys(), default=None)
    if largest is None:
        return 0
    for sign, less, more in ((1, before[largest], after[largest]), (-1, after[largest], before[largest])):
        if more > less * factor and more - less > least:
            return sign
    return 0


def _by_case(measurements: Sequence[Measurement], name: str) -> dict[tuple[float, float, str], float]:
    return {
        (one.case.get("params", 0), one.case.get("tensors", 0), str(one.case.get("device", ""))): float(one.value)
        for one in measurements
        if one.name == name and one.evidence is not Evidence.EXTRAPOLATED and isinstance(one.value, int | float)
    }


def _told(base: ProbeResult, arm: ProbeResult) -> str:
    """The laws where the probe fits one, else the arm's message."""
    has_laws = arm.outcome in _ANSWERED and base.law and arm.law
    return f"{base.law} -> {arm.law}" if has_laws else arm.message


def _cost(change: ProbeChange) -> str:
    if change.probe == ANSWER:
        return f"the result differs: {change.told}"
    verb = {ChangeKind.INTRODUCED: "began to reproduce", ChangeKind.LOST: "no longer has a result"}
    return f"{change.probe} {verb.get(change.kind, 'is worse')}: {change.told}"
