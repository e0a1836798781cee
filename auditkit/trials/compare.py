"""The same probes and the same gradients at two revisions of one checkout, and what changed between them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from auditkit.assets import bundled_dir
from auditkit.errors import BadInputError, ExitCode
from auditkit.model.answer_changes import compare_answers
from auditkit.model.enums import Outcome, Reason, Severity
from auditkit.model.revisions.comparison import (
    Change,
    Comparison,
    Contrast,
    MatchState,
    Said,
    TargetComparison,
    TargetMatch,
)
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Environment, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import CheckoutSpec, OpenCheckout, import_roots, parse_checkout
from auditkit.probing.engine.catalog import read_probe, select
from auditkit.probing.engine.runner import in_parallel
from auditkit.probing.run.changed import Changed
from auditkit.probing.run.configuration import catalog_of
from auditkit.probing.run.measurement import Progress, Questions, environment_of, measure
from auditkit.probing.run.run_options import RunOptions
from auditkit.probing.run.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.probing.source.history.anchors import AnchoredSource
from auditkit.probing.source.history.changes import read_changes
from auditkit.probing.source.python_files import PythonFiles
from auditkit.trials.comparison import contrast, contrast_added, contrast_source, environment_differences
from auditkit.trials.target_pairs import Side, TargetPair, names_of, pair_found, pair_named

ANSWERS = "_answers"
"""The probe that records a target's results; it judges nothing and is in no list of probes."""


@dataclass(frozen=True)
class CompareRequest:
    """What to compare: two revisions of the directory `checkout`, about these targets (none: what is found).

    `label` stands for the checkout in the result.
    """

    checkout: str
    base: str
    head: str
    options: RunOptions = RunOptions()  # noqa: RUF009 - it is frozen
    targets: tuple[Target, ...] = ()
    probes: tuple[str, ...] = ()
    label: str | None = None


def compare(request: CompareRequest, progress: Progress | None = None) -> Comparison:
    """Run every probe at both revisions and compare the results. Nothing of the repository is written.

    Raises BadInputError for a revision, probe or interpreter that is not there, NothingMeasuredError or
    TargetNotLoadedError where neither revision has a target.
    """
    progress = progress or Progress()
    probes = select(catalog_of(request.options.config), request.probes)
    specs = _specs(request)
    with request.options.open(specs[0]) as base, request.options.open(specs[1]) as head:
        return _compared(request, base, head, probes, progress)


def _specs(request: CompareRequest) -> tuple[CheckoutSpec, CheckoutSpec]:
    spec = parse_checkout(request.checkout)
    if spec.revision:
        raise BadInputError(
            f"{request.checkout} names a revision already", f"auditkit compare {spec.directory} {spec.revision} HEAD"
        )
    if git.git_is_installed() and git.find_repository(spec.directory) is None:
        raise BadInputError(
            f"{spec.directory} is not in a git repository, so it has no revisions to compare",
            "audit it twice with --json: auditkit compare --runs BEFORE.json AFTER.json",
        )
    return spec.at(request.base), spec.at(request.head)


def _compared(
    request: CompareRequest, base: OpenCheckout, head: OpenCheckout, probes: Sequence[ProbeInfo], progress: Progress
) -> Comparison:
    asked = [probe for probe in probes if probe.scope == "target"]
    sides = (_side(request.options, base), _side(request.options, head))
    touched = None if request.targets else _Touched(_changed(base, head))
    pairs, notes = _pairs(request, sides, touched, progress)
    runs = _measured(request, pairs, asked, sides, progress) if asked else [(None, None)] * len(pairs)
    environments = tuple(
        _environment(_label(request, index), side, [run for pair in runs if (run := pair[index]) is not None])
        for index, side in enumerate(sides)
    )
    _check_environments(environments[0], environments[1], of_devices=False)
    return Comparison(
        checkout=request.label or request.checkout,
        base=environments[0],
        head=environments[1],
        targets=tuple(_of_target(pair, *run) for pair, run in zip(pairs, runs, strict=True)),
        source=_of_source(request, sides, pairs, [probe for probe in probes if probe.scope == "source"], progress),
        changes=read_changes(base, head),
        notes=tuple(dict.fromkeys((*_notes(sides, runs), *notes))),
        untouched=len(touched.passed_over - _calls(pairs)) if touched else 0,
    )


def _changed(base: OpenCheckout, head: OpenCheckout) -> Changed:
    changed = Changed.between(head.source, base.revision, head.revision)
    if head.at_revision:
        return changed
    return replace(changed, files=changed.files | Changed.since(head.source, "HEAD", head.path).files)


class _Touched:
    """Select the targets that a change touches at a revision, or that call what it touches; keep the others' names."""

    def __init__(self, changed: Changed) -> None:
        self.changed = changed
        self.passed_over: set[str] = set()

    def has(self, target: Target, files: PythonFiles) -> bool:
        is_touched = self.changed.has(target, files)
        if not is_touched:
            self.passed_over.add(target.call)
        return is_touched


def _pairs(
    request: CompareRequest, sides: tuple[Side, Side], touched: _Touched | None, progress: Progress
) -> tuple[list[TargetPair], list[str]]:
    """Those that the command line names; else those of auditkit.yaml and of discovery that the change touches."""
    config = request.options.config
    if touched is None:
        return pair_named(request.targets, *sides), []
    files = [PythonFiles(side.opened.path, import_roots(side.opened.path, config.import_roots)) for side in sides]
    configured = [target for target in config.targets if any(touched.has(target, each) for each in files)]
    named = pair_named(configured, *sides)
    if not config.discover:
        return named, []
    found, notes = pair_found(*sides, config, progress.trying, touched.has)
    calls = _calls(named)
    return [*named, *(pair for pair in found if calls.isdisjoint((pair.match.base, pair.match.head)))], notes


def _calls(pairs: Sequence[TargetPair]) -> set[str]:
    return {call for pair in pairs for call in (pair.match.base, pair.match.head) if call}


def _side(options: RunOptions, opened: OpenCheckout) -> Side:
    return Side(opened, options.setting(opened), AnchoredSource(opened.path, options.import_roots(opened)))


_PairRun = tuple[Run | None, Run | None]


def _measured(
    request: CompareRequest,
    pairs: Sequence[TargetPair],
    probes: Sequence[ProbeInfo],
    sides: Sequence[Side],
    progress: Progress,
) -> list[_PairRun]:
    """Run the probes on both revisions of one target at once, then of the next one."""
    asked = [pair for pair in pairs if pair.match.state is not MatchState.REMOVED]
    progress.targets_known([target for pair in asked for target in (pair.base, pair.head) if target], len(probes))
    questions = [*probes, read_probe(bundled_dir("probes") / f"{ANSWERS}.py")]
    cancelled = threading.Event()
    settings = [replace(side.setting, cancelled=cancelled) for side in sides]

    def one(turn: tuple[int, int, Target]) -> tuple[tuple[int, int], Run]:
        number, index, target = turn
        about = Questions([target], questions, environment_of(_label(request, index), sides[index].opened))
        return (number, index), measure(about, settings[index], progress)

    found = dict(in_parallel(one, _turns(pairs), len(sides), cancelled))
    return [(found.get((number, 0)), found.get((number, 1))) for number in range(len(pairs))]


def _turns(pairs: Sequence[TargetPair]) -> Iterator[tuple[int, int, Target]]:
    """Yield the number of the pair, 0 for base or 1 for head, and the target."""
    for number, pair in enumerate(pairs):
        if pair.match.state is MatchState.REMOVED:
            continue
        for index, target in enumerate((pair.base, pair.head)):
            if target is not None:
                yield number, index, target


def _label(request: CompareRequest, index: int) -> str:
    return f"{request.label or request.checkout}@{(request.base, request.head)[index]}"


def _environment(label: str, side: Side, runs: Sequence[Run]) -> Environment:
    """Of all runs at one revision: the first that has a torch; the device that any of them used."""
    if not runs:
        return environment_of(label, side.opened)
    first = next((run.environment for run in runs if run.environment.torch), runs[0].environment)
    devices = [run.environment.device for run in runs]
    device = next((kind for kind in ("cuda", "cpu", "simulated") if kind in devices), first.device)
    return replace(first, device=device)


def _check_environments(base: Environment, head: Environment, of_devices: bool) -> None:
    """Raise BadInputError if the two were measured under other versions or devices."""
    differing = environment_differences(base, head, of_devices)
    if differing:
        hint = "run both under one interpreter on one device"
        raise BadInputError(f"the two are not comparable: {', '.join(differing)}", hint)


def _of_target(pair: TargetPair, base: Run | None, head: Run | None) -> TargetComparison:
    """The contrasts of one target; those of a new one have a head alone, a removed one is only named."""
    before, after = ({one.probe: one for one in run.results} if run else {} for run in (base, head))
    asked = [probe for probe in after if probe != ANSWERS]
    if base is None:
        return TargetComparison(pair.match, tuple(contrast_added(after[probe]) for probe in asked))
    answers = [side[ANSWERS].measurements if ANSWERS in side else () for side in (before, after)]
    return TargetComparison(
        pair.match,
        tuple(contrast(before[probe], after[probe]) for probe in asked),
        compare_answers(answers[0], answers[1]),
    )


def _of_source(
    request: CompareRequest,
    sides: Sequence[Side],
    pairs: Sequence[TargetPair],
    probes: Sequence[ProbeInfo],
    progress: Progress,
) -> tuple[Contrast, ...]:
    """What reading the targets' modules says at both revisions."""
    if not probes:
        return ()
    results: list[tuple[ProbeResult, ...]] = []
    for index, side in enumerate(sides):
        targets = [target for pair in pairs if (target := (pair.base, pair.head)[index]) is not None]
        questions = SourceQuestions(probes, SourceScope.TARGETS, targets, request.options)
        results.append(read_source(questions, side.opened, progress).results)
    return contrast_source(results[0], results[1], names_of(pairs))


def _notes(sides: Sequence[Side], runs: Sequence[_PairRun]) -> Iterator[str]:
    """Notes on the two checkouts and their runs; what only one side says names it."""
    said = [
        [*side.opened.notes, *(note for pair in runs if (run := pair[index]) is not None for note in run.notes)]
        for index, side in enumerate(sides)
    ]
    yield from (note for note in said[0] if note in said[1])
    for name, ours, others in (("base", *said), ("head", *reversed(said))):
        yield from (f"{name}: {note}" for note in ours if note not in others)


def compare_runs(base: Run, head: Run) -> Comparison:
    """Compare two saved runs; match functions by qualified name alone, because the source is not there.

    Raises BadInputError if torch, Python or device differ, or if a run has several arms.
    """
    for name, run in (("base", base), ("head", head)):
        if run.matrix:
            raise BadInputError(f"the {name} has {len(run.matrix)} arms", "compare runs of one interpreter and device")
    _check_environments(base.environment, head.environment, of_devices=True)
    before, after = ({one.fingerprint: one for one in run.results if not one.is_of_source} for run in (base, head))
    read = [[one for one in run.results if one.is_of_source] for run in (base, head)]
    targets: dict[str, list[str]] = {}
    for print_ in dict.fromkeys((*before, *after)):
        targets.setdefault(print_.partition("/")[2], []).append(print_)
    return Comparison(
        checkout=head.environment.checkout.partition("@")[0],
        base=base.environment,
        head=head.environment,
        targets=tuple(_of_saved(prints, before, after) for prints in targets.values()),
        source=contrast_source(read[0], read[1], {}),
        notes=tuple(dict.fromkeys((*base.notes, *head.notes))),
    )


def _of_saved(prints: Sequence[str], before: dict[str, ProbeResult], after: dict[str, ProbeResult]) -> TargetComparison:
    """One target of two saved runs. A probe that only one of them ran cannot be compared."""
    ours, theirs = ([side[one] for one in prints if one in side] for side in (before, after))
    if not theirs:
        return TargetComparison(TargetMatch(ours[0].target, "", MatchState.REMOVED))
    name = theirs[0].target
    if not ours:
        return TargetComparison(TargetMatch("", name, MatchState.ADDED), tuple(map(contrast_added, theirs)))
    contrasts = [contrast(before[one], after[one]) for one in prints if one in before and one in after]
    return TargetComparison(TargetMatch(name, name, MatchState.UNREAD), tuple(contrasts))


_UNANSWERED = (Change.NOT_COMPARABLE, Change.NOT_APPLICABLE)


def exit_code(comparison: Comparison, fail_on: Severity = Severity.P4) -> ExitCode:
    """What a comparison says to the shell; an error on either side is never a pass.

    5 where no target could be loaded, whatever reading the source found; else 1 where a finding at or above
    `fail_on` is new or worse; else 5 where a target could not be loaded; else 3 where a probe ended in an error, or
    nothing could be compared; 0 where the change touches no target.
    """
    contrasts = comparison.contrasts
    about = [one for target in comparison.targets for one in target.contrasts]
    if _is_unloaded(about) and all(one.change in _UNANSWERED for one in about):
        return ExitCode.TARGET_NOT_LOADED
    if any(one.is_worse and one.severity and one.severity.at_least(fail_on) for one in contrasts):
        return ExitCode.FINDINGS
    if _is_unloaded(contrasts):
        return ExitCode.TARGET_NOT_LOADED
    has_error = any(side.outcome is Outcome.ERROR and side.reason is not Reason.NOT_PARSED for side in _said(contrasts))
    compared = [one for one in contrasts if one.change not in _UNANSWERED]
    only_new = all(target.match.state in (MatchState.ADDED, MatchState.REMOVED) for target in comparison.targets)
    is_untouched = bool(comparison.untouched and not comparison.targets)
    if has_error or not (compared or is_untouched or (comparison.targets and only_new)):
        return ExitCode.NOTHING_MEASURED
    return ExitCode.OK


def _said(contrasts: Iterable[Contrast]) -> list[Said]:
    return [side for one in contrasts for side in (one.base, one.head) if side is not None]


def _is_unloaded(contrasts: Iterable[Contrast]) -> bool:
    return any(side.reason and side.reason.is_not_loaded for side in _said(contrasts))
