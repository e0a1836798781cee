"""A fix for each ticket of an audit: changes of the code with the cause, run in a copy until one is sufficient.

A fix was run: its findings are gone for every target that showed them, no correct result changed, and nothing got
worse, neither for them nor for another target that calls the changed function.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from auditkit.errors import AuditkitError
from auditkit.model.revisions.trial import FixVerdict, Judgement
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.run import Finding, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.model.text import counted, inert_line
from auditkit.probing.engine.runner import in_parallel
from auditkit.probing.fix.patches import CannotComplete, FunctionFile, function_in
from auditkit.probing.fix.rewrites.rewrite import Rewrite, rewrites_of
from auditkit.probing.run.measurement import Progress
from auditkit.probing.source.python_files import PythonFiles
from auditkit.trials.answers import Answers, costs, judged
from auditkit.trials.bench import Bench
from auditkit.trials.candidates import Candidate, RewriteSets, made
from auditkit.trials.causes import Cause, judging_of, other_targets
from auditkit.trials.fix_rows import row_of_read, rows_of
from auditkit.trials.fix_trials import Scene, Trials
from auditkit.trials.no_fix import (
    COSTS_OTHERS,
    INTERRUPTED,
    LEAVES,
    NO_ANSWERS,
    NO_REWRITE,
    NO_TARGET,
    TRADES,
    Failed,
    NoFix,
    reason_of,
    time_was_over,
)
from auditkit.trials.shared_diffs import Effect, shared

_MOST_READERS = 2
_MOST_FULL_RUNS = 3
"""Candidates of one ticket that remove its finding at a price; a fourth one is rarely better than the third."""
_AT_A_TIME = 2
"""Tickets at a time: each has one worker, which computes with one thread."""


@dataclass(frozen=True)
class Found:
    """The fixes in the order of their tickets, why other findings have none, and a sentence on how many have one."""

    fixes: tuple[Fix, ...]
    no_fix: Mapping[str, str]
    note: str


@dataclass
class Search:
    """The fixes of one run, searched for until `limit_s` seconds are over, then with what was found by then.

    `rewrites` are the changes that may fix some findings of a function.
    """

    scene: Scene
    run: Run
    benches: Sequence[Bench]
    limit_s: float
    progress: Progress = field(default_factory=Progress)
    rewrites: Callable[[FunctionFile, Sequence[ProbeResult]], Sequence[Rewrite]] = rewrites_of

    def __post_init__(self) -> None:
        self._ends = threading.Event()
        self._effects: dict[Fix, Effect] = {}
        self._trials = Trials(self.scene, self.run, self.benches, self.progress, self._ends)
        self._files = PythonFiles(self.scene.opened.path, self.scene.options("").import_roots(self.scene.opened))

    def fixes_of(self, groups: Sequence[Sequence[Finding]]) -> Found:
        """What came of each group of findings, which is one ticket."""
        began = time.monotonic()
        outcomes: dict[int, Fix | NoFix] = {}

        def search(number: int) -> None:
            outcome = None if self._ends.is_set() else self._outcome_of(groups[number])
            if outcome is not None and (isinstance(outcome, Fix) or not self._ends.is_set()):
                outcomes[number] = outcome

        over = time_was_over(self.limit_s)
        timer = threading.Timer(self.limit_s, self._ends.set)
        timer.daemon = True
        timer.start()
        try:
            in_parallel(search, range(len(groups)), len(self.benches), self._ends)
        except KeyboardInterrupt:  # what was audited is still filed
            over = INTERRUPTED
        finally:
            timer.cancel()
        of_groups = [outcomes.get(number, over) for number in range(len(groups))]
        effects = {one: self._effects[one] for one in of_groups if isinstance(one, Fix)}
        return _found(groups, shared(groups, of_groups, effects), time.monotonic() - began)

    def _outcome_of(self, group: Sequence[Finding]) -> Fix | NoFix:
        """The fix of a group; what cannot be read, or changed meanwhile, is a reason why there is none."""
        try:
            return self._fix_of(group)
        except (AuditkitError, OSError, SyntaxError, ValueError, RecursionError) as error:
            told = f"could not be tried: {inert_line(str(error))}"
            return NoFix(told, told)

    def _fix_of(self, group: Sequence[Finding]) -> Fix | NoFix:
        """The smallest fix of the findings that judge it. Minor ones may stay: no edit grows on their account."""
        judging = judging_of(group)
        cause = Cause.of(judging, [one for one in group if one not in judging])
        places = self._places(cause)
        if not places:
            return NO_REWRITE
        if not cause.targets:
            cause = replace(cause, targets=self._readers(cause, places[0]))
        if not cause.targets:
            return NO_TARGET
        if not all(self._trials.base(cause.arm, target).are_comparable for target in cause.targets):
            return NO_ANSWERS
        results = [finding.result for finding in cause.findings]
        tried: dict[bytes, Failed] = {}
        refused = ""
        for place in places:
            sets = RewriteSets(self.rewrites(place, results), cause.probes)
            for chosen in sets:
                if self._ends.is_set() or sum(one.near > LEAVES for one in tried.values()) >= _MOST_FULL_RUNS:
                    return reason_of(tried.values(), refused)
                try:
                    candidate = made(place, chosen, results)
                except CannotComplete as error:
                    refused = str(error)
                    continue
                outcome = self._tried(cause, candidate)
                if isinstance(outcome, Fix):
                    return outcome
                tried.setdefault(candidate.change.after, outcome)
                if outcome.left:
                    sets.left(outcome.left, chosen)
        return reason_of(tried.values(), refused)

    def _places(self, cause: Cause) -> list[FunctionFile]:
        """The function with the cause; where that is another one, the target's own function as well."""
        calls = [cause.call_in(self._files), *(target.call for target in cause.targets)]
        places = [function_in(self._files, call) for call in dict.fromkeys(calls) if call]
        return [place for place in places if place is not None]

    def _readers(self, cause: Cause, place: FunctionFile) -> tuple[Target, ...]:
        """Targets that run code in which only reading found something."""
        lines = {one.result.location.line for one in cause.findings if one.result.location}
        return tuple(other_targets(self._files, self.run, cause, place, lines)[:_MOST_READERS])

    def _tried(self, cause: Cause, candidate: Candidate) -> Fix | Failed:
        """Return the fix if every probe and every correct result agrees; else what is wrong with it."""
        tried = []
        for target in cause.targets:
            findings = tuple(cause.asked_of(target))
            arm, wrong = self._trials.with_change(candidate.change, cause, target, findings)
            if wrong:
                left = next((probe for probe in findings if wrong.partition(",")[0] == f"left {probe}"), "")
                return Failed(LEAVES if left else TRADES, wrong, left)
            if self._ends.is_set():
                return Failed(LEAVES, "was not run to the end")
            base = self._trials.base(cause.arm, target)
            if not findings:
                if lost := costs(base, arm):
                    return Failed(COSTS_OTHERS, f"is worse for {target.call}: {lost[0]}")
                continue
            verdict = judged(findings, base, arm)
            if verdict.verdict is not FixVerdict.SUFFICIENT:
                return Failed(TRADES, verdict.text)
            tried.append((base, arm, verdict))
        if still := self._trials.still_read(candidate.change, cause):
            return Failed(LEAVES, f"left {still[0]}", still[0])
        for target in other_targets(self._files, self.run, cause, candidate.place, candidate.lines):
            arm, wrong = self._trials.with_change(candidate.change, cause, target, ())
            lost = [wrong] if wrong else costs(self._trials.base(cause.arm, target), arm)
            if lost or self._ends.is_set():
                return Failed(COSTS_OTHERS, f"is worse for {target.call}: {lost[0] if lost else 'no result'}")
        return self._fix(cause, candidate, tried)

    def _fix(self, cause: Cause, candidate: Candidate, tried: Sequence[tuple[Answers, Answers, Judgement]]) -> Fix:
        worst = cause.findings[0].result
        quiet = {(arm.target.call, probe) for _, arm, _ in tried for probe in arm.gone(arm.asked)}
        gone = [one.result.fingerprint for one in cause.minor if (one.result.target, one.probe.id) in quiet]
        fix = Fix(
            target=cause.targets[0].call,
            file=candidate.change.file,
            function=candidate.place.function.qualified_name.partition("#")[0],
            difference=candidate.change.difference(self.scene.prefix),
            changes=tuple(one.change for one in candidate.rewrites),
            mends=(*cause.fingerprints, *gone),
            rows=(*rows_of(tried), *(row_of_read(one.result) for one in cause.read)),
            device=worst.device,
            torch=self.run.environment_of(worst).torch,
        )
        self._effects[fix] = Effect(cause.arm, frozenset(quiet), candidate.lines)
        return fix


def _found(groups: Sequence[Sequence[Finding]], outcomes: Sequence[Fix | NoFix], seconds: float) -> Found:
    fixes = list(dict.fromkeys(one for one in outcomes if isinstance(one, Fix)))
    mended = {fingerprint for fix in fixes for fingerprint in fix.mends}
    no_fix: dict[str, str] = {}
    for group, outcome in zip(groups, outcomes, strict=True):
        told = outcome.told if isinstance(outcome, NoFix) else "a minor finding that its ticket's fix leaves"
        left = (finding.result.fingerprint for finding in group)
        no_fix |= {fingerprint: told for fingerprint in left if fingerprint not in mended}
    reasons = Counter(one.short for one in outcomes if isinstance(one, NoFix))
    ended = sum(isinstance(one, Fix) for one in outcomes)
    said = f"fixes that were run: for {ended} of {counted(len(groups), 'new ticket')}, {seconds:.0f} s"
    return Found(
        tuple(fixes), no_fix, "; ".join([said, *(f"{count} without: {reason}" for reason, count in reasons.items())])
    )


def with_fixes(run: Run, groups: Sequence[Sequence[Finding]], scene: Scene, limit_s: float, told: Progress) -> Run:
    """The run with a fix for each group of findings that has one, searched for at most so many seconds.

    Raises BadInputError as `open_copy` does.
    """
    if not groups:
        return run
    with ExitStack() as stack:
        interpreter = scene.options("").interpreter
        copies = min(_AT_A_TIME, len(groups))
        benches = [stack.enter_context(Bench.open(scene.spec, interpreter)) for _ in range(copies)]
        found = Search(scene, run, benches, limit_s, told).fixes_of(groups)
    return replace(run, fixes=found.fixes, no_fix=found.no_fix, notes=(*run.notes, found.note))
