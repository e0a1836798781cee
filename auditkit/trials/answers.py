"""The results of a target with and without a fix, and what the fix is worth: what is gone, and what got worse."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from auditkit.assets import bundled_dir
from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.revisions.trial import ChangeKind, FixVerdict, Judgement, ProbeChange
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, TargetReading
from auditkit.model.runs.target import Target
from auditkit.model.text import listed
from auditkit.probing.engine.catalog import read_probe
from auditkit.trials.right_answers import SPARSE, changed_answers, told

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
_COSTS = (ChangeKind.INTRODUCED, ChangeKind.WORSE, ChangeKind.LOST)
ANSWERS = "_answers"
"""The probe that records a target's results; it judges nothing and is in no list of probes."""
_UNREAD = "its correct results could not be compared: "


def answers_probe() -> ProbeInfo:
    """Return the probe that records the target's results."""
    return read_probe(bundled_dir("probes") / f"{ANSWERS}.py")


@dataclass(frozen=True)
class Answers:
    """What ran on `target`: each probe's result, its own results, the field of each role, the ids of all probes.

    `unread` says why its own results could not be recorded to the end, "" if they were.
    """

    target: Target
    results: tuple[ProbeResult, ...] = ()
    recorded: tuple[Measurement, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    unread: str = ""

    @classmethod
    def of(cls, results: Sequence[ProbeResult], target: Target, reading: TargetReading | None = None) -> Answers:
        """Those of one target; without a `reading` the roles of its fields are not known."""
        return cls(
            reading.target if reading is not None else target,
            tuple(one for one in results if one.probe != ANSWERS),
            tuple(measured for one in results if one.probe == ANSWERS for measured in one.measurements),
            reading.roles if reading is not None else {},
            frozenset(one.probe for one in results),
            next((one.message for one in results if one.probe == ANSWERS and one.outcome is Outcome.ERROR), ""),
        )

    def and_(self, other: Answers) -> Answers:
        """Return these with the further results of `other`."""
        results = (*self.results, *(one for one in other.results if one.probe not in self.asked))
        recorded = self.recorded or other.recorded
        unread = self.unread or other.unread
        return replace(self, results=results, recorded=recorded, asked=self.asked | other.asked, unread=unread)

    @property
    def are_comparable(self) -> bool:
        """Whether there are results to compare: a contract without numbers has none."""
        return any(one.name in ("answer", "left_norm") for one in self.recorded)

    @property
    def reproduced(self) -> frozenset[str]:
        return frozenset(one.probe for one in self.results if one.outcome is Outcome.REPRODUCED)

    def gone(self, probes: Collection[str]) -> frozenset[str]:
        """Those of `probes` that do not reproduce here."""
        return frozenset(one.probe for one in self.results if one.outcome is Outcome.NOT_REPRODUCED) & {*probes}


def judge(findings: Collection[str], base: Answers, arm: Answers) -> Judgement:
    """Judge the results of `arm` against those of `base`; `findings` are the probes that the change has to fix.

    A field that the arm's result lacks, and a correct result that differs, are costs. An error or an absence is never a
    pass: if a finding's probe has no result, the fix does not run.
    """
    lost, changed = _lost(base, arm), _changed(findings, base, arm.recorded)
    answers = [(f"it no longer returns {', '.join(lost)}", f"the result's {', '.join(lost)}")] if lost else []
    answers += [(f"correct results differ, such as {changed[0]}", "correct results")] if changed else []
    outcomes = Outcome.NOT_REPRODUCED, Outcome.ERROR
    whole = [ProbeChange(ANSWER, *outcomes, ChangeKind.LOST, told, noun) for told, noun in answers]
    changes = (*_changes(findings, base.results, arm.results), *whole)
    silent = [change for change in changes if change.is_finding and change.kind is ChangeKind.LOST]
    if silent:
        return does_not_run(silent[0].told, changes)
    if arm.unread and not base.unread:
        return does_not_run(_UNREAD + arm.unread, changes)
    gone = [change for change in changes if change.is_finding and change.kind is ChangeKind.GONE]
    left = [change for change in changes if change.is_finding and change.arm is Outcome.REPRODUCED]
    costs = [change for change in changes if not change.is_finding and change.kind in _COSTS]
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


def problem(findings: Collection[str], base: Answers, result: ProbeResult) -> str:
    """Return what is wrong with one result compared with the base's, "" if nothing.

    `findings` are the probes that the change has to fix.
    """
    if result.probe in findings:
        if result.outcome is Outcome.NOT_REPRODUCED:
            return ""
        silent = "" if result.outcome is Outcome.REPRODUCED else f", which had no result: {result.message}"
        return f"left {result.probe}{silent}"
    if result.probe == ANSWERS:
        # What another target gets wrong may change, although the change was not made for it.
        return next(_changes_in(findings or base.reproduced, base, result.measurements), "")
    worse = (change for change in _changes((), base.results, [result]) if change.kind in _COSTS)
    return next((f"is a trade: {_cost(change)}" for change in worse), "")


def first_problem(findings: Collection[str], base: Answers, arm: Answers) -> str:
    """Return the first problem of the arm compared with the base, "" if there is none."""
    found = [problem(findings, base, result) for result in arm.results]
    found += [_UNREAD + arm.unread] if arm.unread and not base.unread else []
    found += _changes_in(findings or arm.gone(base.reproduced), base, arm.recorded)
    found += [f"is a trade: the result has no {role}" for role in _lost(base, arm)]
    return next(filter(None, found), "")


def _changes_in(wrong: Collection[str], base: Answers, recorded: Sequence[Measurement]) -> Iterator[str]:
    return (f"changed a correct result: {one}" for one in _changed(wrong, base, recorded))


def _lost(base: Answers, arm: Answers) -> list[str]:
    # Without a plan the target was not called, and the results say why.
    return sorted(base.roles.keys() - arm.roles.keys()) if arm.roles else []


def _changed(findings: Collection[str], base: Answers, recorded: Sequence[Measurement]) -> list[str]:
    # Of sparse gradients a clipping function scales a copy of the values: what it leaves is wrong for every ticket.
    wrong = {*findings, *base.reproduced.intersection([SPARSE])}
    return [told(one) for one in changed_answers(base.recorded, recorded, base.roles, wrong)]


def _changes(findings: Collection[str], base: Sequence[ProbeResult], arm: Sequence[ProbeResult]) -> list[ProbeChange]:
    """Return what became of each probe that both have, the worst first; the severity may be that of either side."""
    at_arm = {result.probe: result for result in arm}
    pairs = [(before, at_arm[before.probe]) for before in base if before.probe in at_arm]
    pairs.sort(key=lambda pair: (min(one.severity or Severity.P4 for one in pair), pair[0].probe))
    return [_change(before, after, before.probe in findings) for before, after in pairs]


def does_not_run(reason: str, changes: tuple[ProbeChange, ...] = ()) -> Judgement:
    """The verdict on code that cannot be completed or loaded, or that returns nothing."""
    return Judgement(FixVerdict.DOES_NOT_RUN, FixVerdict.DOES_NOT_RUN.value, reason, changes)


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
