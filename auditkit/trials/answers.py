"""The results of a target with and without a fix: of every probe, and of its own for the same gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from auditkit.assets import bundled_dir
from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import Judgement
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, TargetReading
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import read_probe
from auditkit.trials.right_answers import SPARSE, changed_answers, told
from auditkit.trials.trade import costs_of, judge

ANSWERS = "_answers"
"""The probe that records a target's results; it judges nothing and is in no list of probes."""


def answers_probe() -> ProbeInfo:
    """Return the probe that records the target's results."""
    return read_probe(bundled_dir("probes") / f"{ANSWERS}.py")


@dataclass(frozen=True)
class Answers:
    """What ran on `target`: each probe's result, its own results, the field of each role, the ids of all probes."""

    target: Target
    results: tuple[ProbeResult, ...] = ()
    recorded: tuple[Measurement, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()

    @classmethod
    def of(cls, results: Sequence[ProbeResult], target: Target, reading: TargetReading | None = None) -> Answers:
        """Those of one target; without a `reading` the roles of its fields are not known."""
        return cls(
            reading.target if reading is not None else target,
            tuple(one for one in results if one.probe != ANSWERS),
            tuple(measured for one in results if one.probe == ANSWERS for measured in one.measurements),
            reading.roles if reading is not None else {},
            frozenset(one.probe for one in results),
        )

    def and_(self, other: Answers) -> Answers:
        """Return these with the further results of `other`."""
        results = (*self.results, *(one for one in other.results if one.probe not in self.asked))
        recorded = self.recorded or other.recorded
        return replace(self, results=results, recorded=recorded, asked=self.asked | other.asked)

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


def judged(findings: Sequence[str], base: Answers, arm: Answers) -> Judgement:
    """Judge the results of `arm` against those of `base`; `findings` are the probes that the change has to fix."""
    return judge(findings, base.results, arm.results, _lost(base, arm), _changed(findings, base, arm.recorded))


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
    return next((f"is a trade: {cost}" for cost in costs_of(base.results, [result])), "")


def first_problem(findings: Collection[str], base: Answers, arm: Answers) -> str:
    """Return the first problem of the arm compared with the base, "" if there is none."""
    found = [problem(findings, base, result) for result in arm.results]
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
