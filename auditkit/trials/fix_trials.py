"""Results of targets without a change and with one: each probe runs once, and none after the first problem."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from auditkit.model.enums import Outcome
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkout.checkout import CheckoutSpec, OpenCheckout
from auditkit.probing.engine.results import read_target
from auditkit.probing.engine.runner import run_target
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.fix.file_change import FileChange
from auditkit.probing.run.measurement import Progress
from auditkit.probing.run.run_options import RunOptions
from auditkit.probing.run.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.trials.answers import ANSWERS, Answers, answers_probe, first_problem, problem
from auditkit.trials.causes import Cause

_CANDIDATE_LIMIT_S = 20.0
"""A probe of a candidate that takes longer hangs, and the others wait: the slowest takes 3 s on two cores. On a machine
that is busy, where the base took longer, it has four times as long as any probe had there."""
_COMPILES = "graphs"
_SILENT = (Outcome.UNAVAILABLE, Outcome.ERROR)


@dataclass(frozen=True)
class Scene:
    """What was audited: the open checkout, the options of each arm by its label, and every probe that runs.

    `prefix` is the way from the top of the repository to the checkout ("sub/"), which the paths of a diff begin with.
    """

    spec: CheckoutSpec
    opened: OpenCheckout
    arms: Mapping[str, RunOptions]
    probes: Sequence[ProbeInfo]
    prefix: str = ""

    def options(self, arm: str) -> RunOptions:
        """Those of the arm with this label, or of the only one."""
        return self.arms.get(arm) or next(iter(self.arms.values()))


class _EnoughError(Exception):
    """A result after which no other matters."""


class _Cancelled(threading.Event):
    """Set by itself, or with `all_of_them`."""

    def __init__(self, all_of_them: threading.Event) -> None:
        super().__init__()
        self._all = all_of_them

    def is_set(self) -> bool:
        return super().is_set() or self._all.is_set()


@dataclass
class Trials:
    """The probe runs of one search, whose threads share the results; each has one of the `copies` at a time.

    Once `ends` is set no probe starts, and those that run have no result.
    """

    scene: Scene
    run: Run
    copies: Sequence[OpenCheckout]
    progress: Progress = field(default_factory=Progress)
    ends: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._free: queue.SimpleQueue[OpenCheckout] = queue.SimpleQueue()
        for copy in self.copies:
            self._free.put(copy)
        self._probes = [*self.scene.probes, answers_probe()]
        self._base: dict[tuple[str, str], Answers] = {}
        self._asked: dict[tuple[str, str, bytes], Answers] = {}
        self._locks: defaultdict[object, threading.Lock] = defaultdict(threading.Lock)

    def base(self, arm: str, target: Target) -> Answers:
        """Return the results of the target in the run, and measure only those that it lacks."""
        key = arm, target.call
        with self._locks[key]:
            if key not in self._base:
                run = next((one.run for one in self.run.matrix if one.label == arm), self.run)
                results = [one for one in run.results if one.target == target.call and not one.is_of_source]
                reading = next((one for one in run.targets if one.target.call == target.call), None)
                known = Answers.of(results, target, reading)
                missing = [probe for probe in self._probes if probe.id not in known.asked]
                setting = self.scene.options(arm).setting(self.scene.opened)
                further = self._ask(setting, target, missing, lambda _: False)
                if self.ends.is_set():
                    return known
                self._base[key] = known.and_(further)
            return self._base[key]

    def with_change(
        self, change: FileChange, cause: Cause, target: Target, findings: Collection[str]
    ) -> tuple[Answers, str]:
        """Return the results of the target with the change, and what is wrong with them, "" if nothing.

        The probes of `findings` run first, then the fastest; none runs after a problem.
        """
        base, key = self.base(cause.arm, target), (cause.arm, target.call, change.after)
        with self._locks[key]:
            known = self._asked.get(key, Answers(target))
            minor = {one.probe.id for one in cause.minor}
            missing = [one for one in self._in_turn(base, findings, minor) if one.id not in known.asked]
            if missing and not first_problem(findings, base, known) and not self.ends.is_set():
                self.progress.trying(f"a fix in {change.file} on {target.call}")
                with self._holding(change) as opened:
                    setting = self.scene.options(cause.arm).setting(opened)
                    longest_s = max([_CANDIDATE_LIMIT_S, *(4 * one.duration_s for one in base.results)])
                    setting = replace(setting, time_limit_s=min(setting.time_limit_s, longest_s))
                    found = self._ask(setting, target, missing, lambda one: bool(problem(findings, base, one)))
                if not self.ends.is_set():
                    self._asked[key] = known = found.and_(known)
            return known, first_problem(findings, base, known)

    def _in_turn(self, base: Answers, findings: Collection[str], minor: Collection[str]) -> list[ProbeInfo]:
        """Return the probes whose result may matter, in the order in which they run.

        Where the base has no result there is nothing to compare. A target that already breaks a graph may go on to do
        so: compiling it takes longer than all other probes.
        """
        before = {one.probe: one for one in base.results}

        def matters(probe: ProbeInfo) -> bool:
            known = before.get(probe.id)
            if known is None or probe.id in findings or probe.id in minor:
                return True
            still = probe.instrument == _COMPILES and known.outcome is Outcome.REPRODUCED
            return known.outcome not in _SILENT and not still

        def turn(probe: ProbeInfo) -> tuple[bool, bool, float]:
            seconds = before[probe.id].duration_s if probe.id in before else 0.0
            return probe.id not in findings, probe.id != ANSWERS, seconds

        return sorted(filter(matters, self._probes), key=turn)

    def still_read(self, change: FileChange, cause: Cause) -> list[str]:
        """Of what reading had found the fingerprints that it finds with the change, too, or cannot look for."""
        if not cause.read:
            return []
        probes = list({one.probe.id: one.probe for one in cause.read}.values())
        questions = SourceQuestions(probes, SourceScope.TARGETS, cause.targets, self.scene.options(cause.arm))
        with self._holding(change) as opened:
            results = read_source(questions, opened)
        quiet = {one.probe for one in results} - {one.probe for one in results if one.outcome is Outcome.ERROR}
        left = {one.fingerprint for one in results if one.outcome is Outcome.REPRODUCED}
        return [one.probe.id for one in cause.read if one.probe.id not in quiet or one.result.fingerprint in left]

    @contextlib.contextmanager
    def _holding(self, change: FileChange) -> Iterator[OpenCheckout]:
        copy = self._free.get()
        try:
            with change.put_into(copy) as opened:
                yield opened
        finally:
            self._free.put(copy)

    def _ask(
        self, setting: Setting, target: Target, probes: Sequence[ProbeInfo], is_enough: Callable[[ProbeResult], bool]
    ) -> Answers:
        """Yield the results of one worker, until one is enough."""
        stop = _Cancelled(self.ends)
        results: list[ProbeResult] = []

        def finished(result: ProbeResult) -> None:
            results.append(result)
            if is_enough(result):
                stop.set()
                raise _EnoughError

        try:
            run = run_target(target, probes, replace(setting, cancelled=stop), finished=finished)
        except _EnoughError:
            return Answers.of(results, target)
        return Answers.of(run.results, target, read_target(target, run, False))
