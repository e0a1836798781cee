"""The same probes and the same gradients at two revisions of one checkout, and what changed between them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
)
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import (
    CheckoutSpec,
    OpenCheckout,
    import_roots,
    open_checkout,
    parse_checkout,
)
from auditkit.probing.engine.catalog import select
from auditkit.probing.run.changed import Changed
from auditkit.probing.run.configuration import catalog_of
from auditkit.probing.run.measurement import Progress, Questions, environment_of, measure
from auditkit.probing.run.run_options import RunOptions
from auditkit.probing.run.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.probing.source.history.changes import read_changes
from auditkit.probing.source.python_files import PythonFiles
from auditkit.reports.review import Requirement, Review, State, judge_plan, review_of
from auditkit.trials.answers import ANSWERS, answers_probe
from auditkit.trials.comparison import contrast, contrast_added, contrast_source
from auditkit.trials.questions import Version
from auditkit.trials.target_pairs import TargetPair, names_of, pair_found, pair_named

_TESTS_LIMIT_S = 3600


@dataclass(frozen=True)
class CompareRequest:
    """What to compare: two revisions of the directory `checkout`, about these targets (none: what is found)."""

    checkout: str
    base: str
    head: str
    options: RunOptions = RunOptions()  # noqa: RUF009 - it is frozen
    targets: tuple[Target, ...] = ()
    probes: tuple[str, ...] = ()


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
            "name a folder of a repository",
        )
    return spec.at(request.base), spec.at(request.head)


def _compared(
    request: CompareRequest, base: OpenCheckout, head: OpenCheckout, probes: Sequence[ProbeInfo], progress: Progress
) -> Comparison:
    asked = [probe for probe in probes if probe.scope == "target"]
    sides = (Version(base, request.options), Version(head, request.options))
    untouched: set[str] = set()
    pairs, notes = _pairs(request, sides, untouched, progress)
    known = [pair for pair in pairs if pair.match.state is not MatchState.REMOVED]
    targets = [[pair.base for pair in known if pair.base], [pair.head for pair in known if pair.head]]
    progress.targets_known([target for pair in known for target in (pair.base, pair.head) if target], len(asked))
    runs = [
        _measured(f"{request.checkout}@{revision}", side, those, asked, progress)
        for revision, side, those in zip((request.base, request.head), sides, targets, strict=True)
    ]
    results = [{(one.target, one.probe): one for one in run.results} for run in runs]
    return Comparison(
        checkout=request.checkout,
        base=runs[0].environment,
        head=runs[1].environment,
        targets=tuple(_of_target(pair, [probe.id for probe in asked], *results) for pair in pairs),
        source=_of_source(request, sides, pairs, [probe for probe in probes if probe.scope == "source"], progress),
        changes=read_changes(base, head),
        notes=tuple(dict.fromkeys(_notes(sides, runs, notes))),
        untouched=len(untouched - _calls(pairs)),
    )


def _measured(
    label: str, side: Version, targets: Sequence[Target], probes: Sequence[ProbeInfo], progress: Progress
) -> Run:
    """The results of every probe, and what the targets return, at one revision."""
    place = environment_of(label, side.opened)
    if not (targets and probes):
        return Run("", place, ())
    return measure(Questions(targets, [*probes, answers_probe()], place), side.setting, progress)


def _changed(base: OpenCheckout, head: OpenCheckout) -> Changed:
    changed = Changed.between(head.source, base.revision, head.revision)
    if head.at_revision:
        return changed
    return replace(changed, files=changed.files | Changed.since(head.source, "HEAD", head.path).files)


def _pairs(
    request: CompareRequest, sides: tuple[Version, Version], untouched: set[str], progress: Progress
) -> tuple[list[TargetPair], Sequence[Sequence[str]]]:
    """Those that the command line names; else those of auditkit.yaml and of discovery that the change touches.

    `untouched` takes the names of the others: at no revision the change touches them, or what they call.
    """
    config = request.options.config
    if request.targets:
        return [pair_named(target, *sides) for target in request.targets], ((), ())
    changed = _changed(sides[0].opened, sides[1].opened)

    def is_touched(target: Target, files: PythonFiles) -> bool:
        has = changed.has(target, files)
        untouched.update(() if has else [target.call])
        return has

    files = [PythonFiles(side.opened.path, import_roots(side.opened.path, config.import_roots)) for side in sides]
    configured = [target for target in config.targets if any(is_touched(target, each) for each in files)]
    named = [pair_named(target, *sides) for target in configured]
    if not config.discover:
        return named, ((), ())
    found, notes = pair_found(*sides, config, progress.trying, is_touched)
    calls = _calls(named)
    return [*named, *(pair for pair in found if calls.isdisjoint((pair.match.base, pair.match.head)))], notes


def _calls(pairs: Sequence[TargetPair]) -> set[str]:
    return {call for pair in pairs for call in (pair.match.base, pair.match.head) if call}


_Results = dict[tuple[str, str], ProbeResult]


def _of_target(pair: TargetPair, probes: Sequence[str], base: _Results, head: _Results) -> TargetComparison:
    """The contrasts of one target; those of a new one have a head alone, a removed one is only named."""
    before, after = (
        {probe: found[target.call, probe] for probe in (*probes, ANSWERS) if (target.call, probe) in found}
        if target else {}
        for target, found in ((pair.base, base), (pair.head, head))
    )  # fmt: skip
    if not before:
        return TargetComparison(pair.match, tuple(contrast_added(after[probe]) for probe in probes if probe in after))
    contrasts = tuple(contrast(before[probe], after[probe]) for probe in probes if probe in after)
    answers = [side[ANSWERS].measurements if ANSWERS in side else () for side in (before, after)]
    return TargetComparison(pair.match, contrasts, compare_answers(*answers))


def _of_source(
    request: CompareRequest,
    sides: Sequence[Version],
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
        results.append(read_source(questions, side.opened, progress))
    return contrast_source(results[0], results[1], names_of(pairs))


def _notes(sides: Sequence[Version], runs: Sequence[Run], found: Sequence[Sequence[str]]) -> Iterator[str]:
    """Notes on the two checkouts, their runs and discovery; what only one side says names it."""
    said = [[*side.opened.notes, *run.notes, *notes] for side, run, notes in zip(sides, runs, found, strict=True)]
    yield from (note for note in said[0] if note in said[1])
    for name, ours, others in (("base", *said), ("head", *reversed(said))):
        yield from (f"{name}: {note}" for note in ours if note not in others)


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


# The review: with the checkboxes of a plan, and the checkout's own tests at both revisions.


def review(comparison: Comparison, plan: Path | None = None, tests: str = "") -> Review:
    """Judge a change by the checkboxes of `plan`; run the command `tests` at both revisions.

    Raises BadInputError for a plan that cannot be read or has no checkbox, and for a missing revision.
    """
    required: list[Requirement] = []
    if plan is not None:
        try:
            required += judge_plan(plan.read_text(encoding="utf-8"), comparison)
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"{plan} cannot be read: {error}") from None
        if not required:
            raise BadInputError(f"{plan} has no checkbox", "write each requirement as: - [ ] PROBE: fixed")
    ended = []
    if tests:
        sides = (("base", comparison.base.checkout), ("head", comparison.head.checkout))
        ended = [f"{name}: {_tested(side, tests)}" for name, side in sides]
        state = State.MET if ended[1].startswith("head: passed") else State.NOT_MET
        required.append(Requirement("the tests pass", state, "; ".join(ended)))
    return review_of(comparison, required, "; ".join(ended))


def _tested(checkout: str, command: str) -> str:
    """Return how the tests end at one revision: `passed`, or the exit code and the last line."""
    with open_checkout(parse_checkout(checkout)) as opened:
        try:
            done = subprocess.run(
                command, shell=True, cwd=opened.path, capture_output=True, text=True, errors="replace",
                timeout=_TESTS_LIMIT_S, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no result in {_TESTS_LIMIT_S} s"
    last = ([line for line in done.stdout.splitlines() if line.strip()] or [""])[-1].strip(" =")
    state = "passed" if done.returncode == 0 else f"failed with exit code {done.returncode}"
    return f"{state} ({last})" if last else state
