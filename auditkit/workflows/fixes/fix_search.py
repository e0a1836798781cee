"""A fix for each ticket of an audit: rewrites of the code with the cause, run in its place until one suffices.

Nothing is taken for a fix that was not run: its findings are gone through every target that showed them, no answer that
was right is another, and nothing got worse, neither for them nor for another target that calls the changed function.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from auditkit.errors import AuditkitError
from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import FixVerdict, Judgement
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Finding, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.model.text import counted, inert_line
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout
from auditkit.probing.patching.fragments import CannotComplete
from auditkit.probing.patching.patches import FunctionFile, function_in
from auditkit.probing.patching.rewrites.rewrite import Rewrite, rewrites_of, rewritten
from auditkit.probing.source_code.python_files import PythonFiles
from auditkit.rules.comparison.trade import to_be_mended
from auditkit.workflows.audit.measurement import Progress, Questions, environment_of, measure
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.audit.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.workflows.fixes.answers import Answers, answers_probe, costs, judged
from auditkit.workflows.fixes.bench import Bench
from auditkit.workflows.fixes.causes import Cause, other_targets
from auditkit.workflows.fixes.combinations import sufficient_sets
from auditkit.workflows.fixes.file_change import FileChange
from auditkit.workflows.fixes.fix_rows import row_of_read, rows_of

_PRICES = {FixVerdict.INSUFFICIENT: "mends a part", FixVerdict.DOES_NOT_RUN: "does not run"}
_MOST_READERS = 2
_CANDIDATE_LIMIT_S = 20.0
"""A probe of a candidate that takes longer hangs: the slowest takes 3 s on two cores, and the others wait."""
_MOST_FULL_RUNS = 3
"""Candidates of one ticket that all probes are asked of; what the third trades, a fourth rarely does not."""


@dataclass(frozen=True)
class Scene:
    """What was audited: the open checkout, the options of each arm by its label, and every probe that is asked.

    `prefix` is the way from the top of the repository to the checkout ("sub/"), which the paths of a diff begin with.
    """

    spec: CheckoutSpec
    opened: OpenCheckout
    arms: Mapping[str, RunOptions]
    probes: Sequence[ProbeInfo]
    prefix: str = ""


@dataclass(frozen=True)
class _Trial:
    """One ticket's findings, the function to change for them, and what its targets answer without a change."""

    cause: Cause
    place: FunctionFile
    base: Mapping[str, Answers]


@dataclass
class Search:
    """The fixes of one run, searched for until `limit_s` seconds are over, then with what was found by then.

    `rewrites` are the changes that may mend some findings of a function.
    """

    scene: Scene
    run: Run
    bench: Bench
    limit_s: float
    progress: Progress = field(default_factory=Progress)
    rewrites: Callable[[FunctionFile, Sequence[ProbeResult]], Sequence[Rewrite]] = rewrites_of

    def __post_init__(self) -> None:
        self._ends = threading.Event()
        self._files = PythonFiles(self.scene.opened.path, self._options("").import_roots(self.scene.opened))
        self._base: dict[tuple[str, str], Answers] = {}
        self._asked: dict[tuple[str, str, bytes], Answers] = {}
        self._reasons: Counter[str] = Counter()

    def fixes_of(self, groups: Sequence[Sequence[Finding]]) -> tuple[list[Fix], list[str]]:
        """The fixes, in the order of the groups, and one sentence on how many have one and why the others have none."""
        began = time.monotonic()
        timer = threading.Timer(self.limit_s, self._ends.set)
        timer.daemon = True
        timer.start()
        found: list[Fix] = []
        left = len(groups)
        interrupted = False
        try:
            for group in groups:
                if self._ends.is_set():
                    break
                fix = self._fix_or_reason(group)
                if fix is None and self._ends.is_set():
                    break
                left -= 1
                found += [fix] if fix is not None else []
        except KeyboardInterrupt:
            interrupted = True  # what was audited is still filed
        finally:
            timer.cancel()
        seconds = time.monotonic() - began
        self._reasons["not tried: interrupted" if interrupted else "not tried: time"] += left
        return found, [self._summary(len(found), len(groups), seconds)] if groups else []

    def _summary(self, fixed: int, asked: int, seconds: float) -> str:
        why = [f"{count} without: {reason}" for reason, count in self._reasons.items() if count]
        told = f"fixes that were run: for {fixed} of {counted(asked, 'new ticket')}, {seconds:.0f} s"
        return "; ".join([told, *why])

    def _fix_or_reason(self, group: Sequence[Finding]) -> Fix | None:
        """The fix of a group; what cannot be read, or changed meanwhile, is a reason why there is none."""
        try:
            fix, reason = self._fix_of(group)
        except (AuditkitError, OSError, SyntaxError, ValueError, RecursionError) as error:
            fix, reason = None, f"could not be tried: {inert_line(str(error))}"
        if fix is None and not self._ends.is_set():
            self._reasons[reason] += 1
        return fix

    def _fix_of(self, group: Sequence[Finding]) -> tuple[Fix | None, str]:
        """The fix of all findings; else that of those which it is judged by, as minor ones may stay."""
        fix, reason = self._fix_for(Cause.of(group))
        judging = {one.fingerprint for one in to_be_mended([finding.result for finding in group])}
        if fix is None and len(judging) < len(group) and not self._ends.is_set():
            minor = [one for one in group if one.result.fingerprint not in judging]
            rest = [one for one in group if one.result.fingerprint in judging]
            fix, reason = self._fix_for(Cause.of(rest, minor))
        return fix, reason

    def _fix_for(self, cause: Cause) -> tuple[Fix | None, str]:
        """The first candidate that suffices; without one the reason."""
        places = [(place, self._rewrites(cause, place)) for place in self._places(cause)]
        if not any(rewrites for _, rewrites in places):
            return None, "no change is known that might mend it"
        if not cause.targets:
            cause = replace(cause, targets=self._readers(cause, places[0][0]))
        if not cause.targets:
            return None, "no target runs its code"
        base = {target.call: self._base_of(cause.arm, target) for target in cause.targets}
        if self._ends.is_set():
            return None, ""
        if not all(one.are_comparable for one in base.values()):
            return None, "its answers cannot be compared"
        reasons = []
        for place, rewrites in places:
            trial = _Trial(cause, place, base)
            sets = sufficient_sets(rewrites, frozenset(cause.fingerprints), partial(self._mended, trial))
            for chosen in itertools.islice(sets, _MOST_FULL_RUNS):
                fix, reason = self._tried(trial, chosen)
                if fix is not None or self._ends.is_set():
                    return fix, reason
                reasons.append(reason)
        return None, reasons[0] if reasons else "no change mended it"

    def _places(self, cause: Cause) -> list[FunctionFile]:
        """The function with the cause; where that is another one, the target's own function as well."""
        calls = [cause.call_in(self._files), *(target.call for target in cause.targets)]
        places = [function_in(self._files, call) for call in dict.fromkeys(calls) if call]
        return [place for place in places if place is not None]

    def _readers(self, cause: Cause, place: FunctionFile) -> tuple[Target, ...]:
        """Targets that run code in which only reading found something."""
        lines = {one.result.location.line for one in cause.findings if one.result.location}
        return tuple(other_targets(self._files, self.run, cause, place, lines)[:_MOST_READERS])

    def _rewrites(self, cause: Cause, place: FunctionFile) -> Sequence[Rewrite]:
        return self.rewrites(place, [finding.result for finding in cause.findings])

    def _mended(self, trial: _Trial, chosen: tuple[Rewrite, ...]) -> frozenset[str]:
        """The ticket's fingerprints that do not reproduce with these rewrites: its own probes alone are asked."""
        change = None if self._ends.is_set() else self._change(trial.place, chosen)
        if change is None:
            return frozenset()
        gone = self._no_longer_read(trial.cause, change)
        for target in trial.cause.targets:
            asked = trial.cause.asked_of(target)
            wanted = [probe for probe in self.scene.probes if probe.id in asked]
            arm = self._ask(change, trial.cause.arm, target, wanted)
            gone |= {asked[probe] for probe in arm.gone(asked)}
        return frozenset(gone)

    def _change(self, place: FunctionFile, chosen: Sequence[Rewrite]) -> FileChange | None:
        try:
            patch = rewritten(place, chosen)
            before = (self.scene.opened.path / place.file).read_bytes()
            change = FileChange.of(place.file, before, patch.text, place.encoding)
            change.difference()
        except (CannotComplete, OSError):
            return None
        return change

    def _no_longer_read(self, cause: Cause, change: FileChange) -> set[str]:
        """The fingerprints of what reading had found, and does not find with the change."""
        if not cause.read:
            return set()
        probes = list({one.probe.id: one.probe for one in cause.read}.values())
        questions = SourceQuestions(probes, SourceScope.TARGETS, cause.targets, self._options(cause.arm))
        with self.bench.holding(change) as opened:
            results = read_source(questions, opened, Progress()).results
        quiet = {one.probe for one in results} - {one.probe for one in results if one.outcome is Outcome.ERROR}
        left = {one.fingerprint for one in results if one.outcome is Outcome.REPRODUCED}
        return {one.result.fingerprint for one in cause.read if one.probe.id in quiet} - left

    def _tried(self, trial: _Trial, chosen: Sequence[Rewrite]) -> tuple[Fix | None, str]:
        """The fix, where every probe and every right answer says that it suffices; else why it does not."""
        cause, change = trial.cause, self._change(trial.place, chosen)
        assert change is not None
        rows = []
        for target in cause.targets:
            arm = self._ask(change, cause.arm, target, self._all_probes())
            if self._ends.is_set():
                return None, ""
            asked = tuple(cause.asked_of(target))
            if not asked and costs(trial.base[target.call], arm):
                return None, "another target would pay for the change"
            if not asked:
                continue
            verdict = judged(asked, trial.base[target.call], arm)
            if verdict.verdict is not FixVerdict.SUFFICIENT:
                return None, f"the change {_PRICES.get(verdict.verdict, 'trades')}"
            rows.append((trial.base[target.call], arm, verdict))
        lines = {line for one in chosen for edit in one.edits for line in range(edit.first[0], edit.last[0] + 1)}
        for target in other_targets(self._files, self.run, cause, trial.place, lines):
            before = self._base_of(cause.arm, target)
            after = self._ask(change, cause.arm, target, self._all_probes())
            if self._ends.is_set() or costs(before, after):
                return None, "another target would pay for the change"
        return self._fix(trial, change, chosen, rows), ""

    def _fix(
        self,
        trial: _Trial,
        change: FileChange,
        chosen: Sequence[Rewrite],
        rows: Sequence[tuple[Answers, Answers, Judgement]],
    ) -> Fix:
        cause, worst = trial.cause, trial.cause.findings[0].result
        quiet = {(arm.target.call, probe) for _, arm, _ in rows for probe in arm.gone(arm.asked)}
        gone = [one.result.fingerprint for one in cause.minor if (one.result.target, one.probe.id) in quiet]
        return Fix(
            target=cause.targets[0].call,
            file=change.file,
            function=trial.place.function.qualified_name.partition("#")[0],
            difference=change.difference(self.scene.prefix),
            changes=tuple(rewrite.change for rewrite in chosen),
            mends=(*cause.fingerprints, *gone),
            rows=(*rows_of(rows), *(row_of_read(one.result) for one in cause.read)),
            device=worst.device,
            torch=self.run.environment_of(worst).torch,
        )

    # --- asking ---

    def _base_of(self, arm: str, target: Target) -> Answers:
        """What the run knows of the target already, and what it did not ask: that alone is measured."""
        if (arm, target.call) not in self._base:
            known = self._known(arm, target)
            missing = [probe for probe in self._all_probes() if probe.id not in known.asked]
            further = self._measured(self.scene.opened, arm, target, missing)
            if self._ends.is_set():
                return known
            self._base[arm, target.call] = known.and_(further)
        return self._base[arm, target.call]

    def _known(self, arm: str, target: Target) -> Answers:
        run = next((one.run for one in self.run.matrix if one.label == arm), self.run)
        results = tuple(one for one in run.results if one.target == target.call and not one.is_of_source)
        readings = tuple(one for one in run.targets if one.target.call == target.call)
        return Answers.of(replace(run, results=results, targets=readings), target)

    def _all_probes(self) -> list[ProbeInfo]:
        return [*self.scene.probes, answers_probe()]

    def _ask(self, change: FileChange, arm: str, target: Target, probes: Sequence[ProbeInfo]) -> Answers:
        """What the target answers with the change; nothing is asked twice."""
        key = (arm, target.call, change.after)
        known = self._asked.get(key, Answers(target))
        missing = [probe for probe in probes if probe.id not in known.asked]
        if missing and not self._ends.is_set():
            self.progress.trying(f"a fix in {change.file} on {target.call}")
            with self.bench.holding(change) as opened:
                found = self._measured(opened, arm, target, missing)
            if not self._ends.is_set():
                self._asked[key] = known = found.and_(known)
        return known

    def _measured(self, opened: OpenCheckout, arm: str, target: Target, probes: Sequence[ProbeInfo]) -> Answers:
        setting = replace(self._options(arm).setting(opened), cancelled=self._ends)
        if opened.path == self.bench.opened.path:
            setting = replace(setting, time_limit_s=min(setting.time_limit_s, _CANDIDATE_LIMIT_S))
        questions = Questions([target], probes, environment_of(opened.label, opened), attributed=False)
        return Answers.of(measure(questions, setting, Progress()), target)

    def _options(self, arm: str) -> RunOptions:
        return self.scene.arms.get(arm) or next(iter(self.scene.arms.values()))


def with_fixes(run: Run, groups: Sequence[Sequence[Finding]], scene: Scene, limit_s: float, told: Progress) -> Run:
    """The run with a fix for each group of findings that has one, searched for at most so many seconds.

    Raises BadInputError as `open_copy` does.
    """
    if not groups:
        return run
    with Bench.open(scene.spec, next(iter(scene.arms.values())).interpreter) as bench:
        fixes, notes = Search(scene, run, bench, limit_s, told).fixes_of(groups)
    return replace(run, fixes=tuple(fixes), notes=(*run.notes, *notes))
