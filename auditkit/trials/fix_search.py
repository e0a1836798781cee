"""A fix for each ticket of an audit: changes of the code with the cause, run in a copy until one is sufficient.

A fix was run: its findings are gone for every target that showed them, no correct result changed, and nothing got
worse, neither for them nor for another target that calls the changed function.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from auditkit.errors import AuditkitError
from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import ChangeKind, Judgement
from auditkit.model.runs.fix import Fix, FixRow
from auditkit.model.runs.run import Finding, ProbeResult, Run
from auditkit.model.text import counted, inert_line
from auditkit.probing.checkout.checkout import OpenCheckout
from auditkit.probing.checkout.copies import open_copy
from auditkit.probing.engine.runner import in_parallel
from auditkit.probing.fix.file_change import FileChange
from auditkit.probing.fix.patches import CannotComplete, FunctionFile, function_in
from auditkit.probing.fix.rewrites.drafts import Draft
from auditkit.probing.fix.rewrites.rewrite import Rewrite, rewrites_of, rewritten
from auditkit.probing.run.measurement import Progress
from auditkit.probing.source.python_files import PythonFiles
from auditkit.trials.answers import Answers, judge
from auditkit.trials.causes import Cause, judging_of, other_targets
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
    reason_of,
    time_was_over,
)

_MOST_READERS = 2
_MOST_FULL_RUNS = 3
"""Candidates of one ticket that remove its finding at a price; a fourth one is rarely better than the third."""
_MOST_SETS, _MOST_LOOKED_AT = 8, 10_000
"""Sets of rewrites that are tried for one ticket, a second or two each, and those that are looked at."""
_AT_A_TIME = 2
"""Tickets at a time: each has one worker, which computes with one thread."""


@dataclass(frozen=True)
class Found:
    """The fixes in the order of their tickets, why other findings have none, and a sentence on how many have one."""

    fixes: tuple[Fix, ...]
    no_fix: Mapping[str, str]
    note: str


_Judged = tuple[Answers, Answers, Judgement]
"""The results of a target without and with a change, and the judgement."""
_Effect = tuple[str, frozenset[tuple[str, str]]]
"""What does not reproduce with a fix: the arm, and pairs of a target and a probe that ran."""


@dataclass
class Search:
    """The fixes of one run, searched for until `limit_s` seconds are over, then with what was found by then.

    `rewrites` are the changes that may fix some findings of a function.
    """

    scene: Scene
    run: Run
    copies: Sequence[OpenCheckout]
    limit_s: float
    progress: Progress = field(default_factory=Progress)
    rewrites: Callable[[FunctionFile, Sequence[ProbeResult]], Sequence[Rewrite]] = rewrites_of

    def __post_init__(self) -> None:
        self._ends = threading.Event()
        self._effects: dict[Fix, _Effect] = {}
        self._trials = Trials(self.scene, self.run, self.copies, self.progress, self._ends)
        self._files = PythonFiles(self.scene.opened.path, self.scene.options("").import_roots(self.scene.opened))

    def fixes_of(self, groups: Sequence[Sequence[Finding]]) -> Found:
        """What came of each group of findings, which is one ticket."""
        began = time.monotonic()
        outcomes: dict[int, Fix | str] = {}

        def search(number: int) -> None:
            if self._ends.is_set():
                return
            try:
                outcome = self._fix_of(groups[number])
            except (AuditkitError, OSError, SyntaxError, ValueError, RecursionError) as error:
                outcome = f"could not be tried: {inert_line(str(error))}"
            if isinstance(outcome, Fix) or not self._ends.is_set():
                outcomes[number] = outcome

        over = time_was_over(self.limit_s)
        timer = threading.Timer(self.limit_s, self._ends.set)
        timer.daemon = True
        timer.start()
        try:
            in_parallel(search, range(len(groups)), len(self.copies), self._ends)
        except KeyboardInterrupt:  # what was audited is still filed
            over = INTERRUPTED
        finally:
            timer.cancel()
        of_groups = [outcomes.get(number, over) for number in range(len(groups))]
        effects = {one: self._effects[one] for one in of_groups if isinstance(one, Fix)}
        return _found(groups, _shared(groups, of_groups, effects), time.monotonic() - began)

    def _fix_of(self, group: Sequence[Finding]) -> Fix | str:
        """The smallest fix of the findings that judge it. Minor ones may stay: no edit grows on their account."""
        judging = judging_of(group)
        cause = Cause.of(judging, [one for one in group if one not in judging])
        places = self._places(cause)
        if not places:
            return NO_REWRITE
        if not cause.targets:
            lines = {one.result.location.line for one in cause.findings if one.result.location}
            readers = list(other_targets(self._files, self.run, cause, places[0], lines))
            cause = replace(cause, targets=tuple(readers[:_MOST_READERS]))  # they run code that was only read
        if not cause.targets:
            return NO_TARGET
        if not all(self._trials.base(cause.arm, target).are_comparable for target in cause.targets):
            return NO_ANSWERS
        results = [finding.result for finding in cause.findings]
        tried: dict[bytes, Failed] = {}
        refused = ""
        for place in places:
            sets = RewriteSets(self.rewrites(place, results), {one.probe.id for one in cause.findings})
            for chosen in sets:
                if self._ends.is_set() or sum(one.near > LEAVES for one in tried.values()) >= _MOST_FULL_RUNS:
                    return reason_of(tried.values(), refused)
                try:
                    draft = rewritten(place, chosen, results)
                    change = FileChange(place.file, place.data, draft.data)
                    change.difference()  # no ticket could show a file that is not UTF-8
                except CannotComplete as error:
                    refused = str(error)
                    continue
                outcome = self._tried(cause, draft, change)
                if isinstance(outcome, list):
                    return self._fix(cause, place, change, [one.change for one in chosen], outcome)
                tried.setdefault(change.after, outcome)
                if outcome.left:
                    sets.left(outcome.left, chosen)
        return reason_of(tried.values(), refused)

    def _places(self, cause: Cause) -> list[FunctionFile]:
        """The function with the cause; where that is another one, the target's own function as well."""
        calls = [cause.call_in(self._files), *(target.call for target in cause.targets)]
        places = [function_in(self._files, call) for call in dict.fromkeys(calls) if call]
        return [place for place in places if place is not None]

    def _tried(self, cause: Cause, draft: Draft, change: FileChange) -> list[_Judged] | Failed:
        """Return the judgements if every probe and every correct result agrees; else what is wrong with the change."""
        tried = []
        others = other_targets(self._files, self.run, cause, draft.place, draft.lines)
        for target in (*cause.targets, *others):
            findings = cause.probes_of(target)
            arm, wrong = self._trials.with_change(change, cause, target, findings)
            if wrong and not findings:
                return Failed(COSTS_OTHERS, f"is worse for {target.call}: {wrong}")
            if wrong:
                left = next((probe for probe in findings if wrong.partition(",")[0] == f"left {probe}"), "")
                return Failed(LEAVES if left else TRADES, wrong, left)
            if self._ends.is_set():
                return Failed(LEAVES, "was not run to the end")
            if findings:
                base = self._trials.base(cause.arm, target)
                tried.append((base, arm, judge(findings, base, arm)))
        if still := self._trials.still_read(change, cause):
            return Failed(LEAVES, f"left {still[0]}", still[0])
        return tried

    def _fix(
        self, cause: Cause, place: FunctionFile, change: FileChange, told: Sequence[str], tried: Sequence[_Judged]
    ) -> Fix:
        worst = cause.findings[0].result
        quiet = {(arm.target.call, probe) for _, arm, _ in tried for probe in arm.gone(arm.asked)}
        gone = [one.result.fingerprint for one in cause.minor if (one.result.target, one.probe.id) in quiet]
        fix = Fix(
            target=cause.targets[0].call,
            file=change.file,
            function=place.function.qualified_name.partition("#")[0],
            difference=change.difference(self.scene.prefix),
            changes=tuple(told),
            mends=(*(one.result.fingerprint for one in cause.findings), *gone),
            rows=(
                *_rows_of(tried),
                *(FixRow(one.probe.id, _in_short(one.result), "is no longer read there") for one in cause.read),
            ),
            device=worst.device,
            torch=self.run.environment_of(worst).torch,
        )
        self._effects[fix] = (cause.arm, frozenset(quiet))
        return fix


def _rows_of(tried: Sequence[_Judged]) -> tuple[FixRow, ...]:
    """Return a row for each probe whose result a fix improves, the ticket's own first, once for all targets."""
    rows: dict[str, FixRow] = {}
    for is_finding in (True, False):
        for base, arm, verdict in tried:
            before, after = ({one.probe: one for one in side.results} for side in (base, arm))
            for change in verdict.changes:
                if change.is_finding is is_finding and change.kind in (ChangeKind.GONE, ChangeKind.BETTER):
                    row = FixRow(change.probe, _in_short(before[change.probe]), _in_short(after[change.probe]))
                    rows.setdefault(change.probe, row)
    return tuple(rows.values())


def _in_short(result: ProbeResult) -> str:
    """`P2, 3.25 bytes per gradient byte`; `does not reproduce (0.2 bytes per gradient byte)`."""
    if result.outcome is Outcome.REPRODUCED:
        severity = result.severity.value if result.severity else "reproduces"
        return f"{severity}, {result.law or result.message}"
    law = f" ({result.law})" if result.law else ""
    quiet = {Outcome.NOT_REPRODUCED: "does not reproduce", Outcome.NOT_APPLICABLE: "does not apply"}
    return quiet[result.outcome] + law if result.outcome in quiet else f"no result: {result.message}"


def _shared(
    groups: Sequence[Sequence[Finding]], outcomes: Sequence[Fix | str], effects: Mapping[Fix, _Effect]
) -> list[Fix | str]:
    """Return the outcome of each ticket: the smallest diff that ends it, be it the fix of another ticket."""
    chosen: list[Fix | str] = []
    mends: dict[Fix, list[str]] = {}
    for group, own in zip(groups, outcomes, strict=True):
        judging, arms = judging_of(group), {one.result.arm for one in group}
        keys = {(one.result.target, one.probe.id) for one in judging}
        enough = [fix for fix, (arm, quiet) in effects.items() if fix == own or (keys <= quiet and arms == {arm})]
        best = min(enough, key=_size, default=own)
        chosen.append(best)
        if isinstance(best, Fix):
            mends.setdefault(best, list(best.mends)).extend(one.result.fingerprint for one in judging)
    whole = {fix: replace(fix, mends=tuple(dict.fromkeys(names))) for fix, names in mends.items()}
    return [whole[one] if isinstance(one, Fix) else one for one in chosen]


def _size(fix: Fix) -> int:
    return sum(line[:1] in "+-" for line in fix.difference.split("\n"))


def _found(groups: Sequence[Sequence[Finding]], outcomes: Sequence[Fix | str], seconds: float) -> Found:
    fixes = [one for one in outcomes if isinstance(one, Fix)]
    no_fix: dict[str, str] = {}
    for group, outcome in zip(groups, outcomes, strict=True):
        told = outcome if isinstance(outcome, str) else "a minor finding that its ticket's fix leaves"
        no_fix |= {finding.result.fingerprint: told for finding in group}
    no_fix = {name: told for name, told in no_fix.items() if not any(name in fix.mends for fix in fixes)}
    note = f"fixes that were run: for {len(fixes)} of {counted(len(groups), 'new ticket')}, {seconds:.0f} s"
    return Found(tuple(dict.fromkeys(fixes)), no_fix, note)


class RewriteSets:
    """Sets of rewrites that may end all of `wanted`, by what each says it may end; the smallest edit first.

    What none of them says it may end is perhaps gone with the rest.
    """

    def __init__(self, rewrites: Sequence[Rewrite], wanted: Collection[str]) -> None:
        self._rewrites = rewrites
        self._wanted = _claims(rewrites) & frozenset(wanted)
        self._vain: list[tuple[str, frozenset[Rewrite]]] = []

    def __iter__(self) -> Iterator[tuple[Rewrite, ...]]:
        """Yield one after the other; what `left` gets of one decides on those that follow."""
        sizes = range(1, len(self._rewrites) + 1)
        sets = (chosen for size in sizes for chosen in itertools.combinations(self._rewrites, size))
        may_end = [one for one in itertools.islice(sets, _MOST_LOOKED_AT) if self._wanted <= _claims(one)]
        # Two variants of one rewrite do not go together.
        may_end = [one for one in may_end if len({each.name for each in one}) == len(one)]
        by_size = sorted(may_end, key=_size_of)
        return itertools.islice((chosen for chosen in by_size if not self._is_vain(chosen)), _MOST_SETS)

    def left(self, probe: str, chosen: Sequence[Rewrite]) -> None:
        """With `chosen` the probe still reproduces: no set is tried that has no other rewrite for it."""
        self._vain.append((probe, _rewrites_for(probe, chosen)))

    def _is_vain(self, chosen: Sequence[Rewrite]) -> bool:
        return any(_rewrites_for(probe, chosen) <= others for probe, others in self._vain)


def _claims(rewrites: Sequence[Rewrite]) -> frozenset[str]:
    return frozenset[str]().union(*(one.probes for one in rewrites))


def _rewrites_for(probe: str, chosen: Sequence[Rewrite]) -> frozenset[Rewrite]:
    return frozenset(one for one in chosen if probe in one.probes)


def _size_of(chosen: Sequence[Rewrite]) -> tuple[int, int, int]:
    return sum(one.size[0] for one in chosen), sum(one.size[1] for one in chosen), len(chosen)


def with_fixes(run: Run, groups: Sequence[Sequence[Finding]], scene: Scene, limit_s: float, told: Progress) -> Run:
    """The run with a fix for each group of findings that has one, searched for at most so many seconds.

    Raises BadInputError as `open_copy` does.
    """
    if not groups:
        return run
    with ExitStack() as stack:
        interpreter = scene.options("").interpreter
        count = min(_AT_A_TIME, len(groups))
        copies = [stack.enter_context(open_copy(scene.spec, interpreter)) for _ in range(count)]
        found = Search(scene, run, copies, limit_s, told).fixes_of(groups)
    return replace(run, fixes=found.fixes, no_fix=found.no_fix, notes=(*run.notes, found.note))
