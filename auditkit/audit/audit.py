"""The main job: from a checkout to a judged run, and from its findings to tickets."""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from auditkit.assets import bundled_dir
from auditkit.audit.baseline import Known
from auditkit.audit.filing import Paperwork, Root, file_run, with_reproductions, without_ticket
from auditkit.audit.ignores import with_ignores
from auditkit.audit.matrix import combine
from auditkit.config.config import Config
from auditkit.config.config_file import config_in
from auditkit.errors import AuditkitError, BadInputError, ExitCode, NothingMeasuredError, TargetNotLoadedError
from auditkit.files import ensure_writable
from auditkit.model.enums import Contract, Outcome, Severity
from auditkit.model.runs.candidates import unchecked_steps
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import BUNDLED, NoTarget, Run
from auditkit.model.runs.target import Target, split_call
from auditkit.model.text import listed
from auditkit.model.ticket import agent_code
from auditkit.probing.checkout.checkout import OpenCheckout, apart_from, import_roots, open_checkout, parse_checkout
from auditkit.probing.checkout.copies import written_since
from auditkit.probing.engine.catalog import select
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.find.training_steps import is_step
from auditkit.probing.fix.file_change import prefix_of
from auditkit.probing.run.changed import Changed
from auditkit.probing.run.configuration import catalog_of
from auditkit.probing.run.found_targets import FoundTargets, find_targets
from auditkit.probing.run.measurement import Progress, Questions, environment_of, measure, run_id
from auditkit.probing.run.recorded_file import recorded_notes
from auditkit.probing.run.run_options import RunOptions
from auditkit.probing.run.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.probing.source.files import LeftOut, source_files
from auditkit.probing.source.likeness.causes import with_causes
from auditkit.probing.source.python_files import PythonFiles
from auditkit.reports.findings import rows_of
from auditkit.tickets.baseline import baseline_of, only_new
from auditkit.tickets.filing import code_of, moved_findings
from auditkit.tickets.lifecycle import Place
from auditkit.tickets.store import TicketFolder
from auditkit.trials.fix_trials import Scene
from auditkit.trials.no_fix import NO_LIBCST, NO_TARGET, NOT_ASKED


@dataclass(frozen=True)
class AuditRequest:
    """What to audit and where findings go; None takes the configuration's value, then the default.

    `arms` are the options of each column of the table; they differ in interpreter and device. `tickets` of None files
    nothing. `whole_source` lets source probes read every module, not only those that deal with gradients. `style` also
    runs the style probes, whose findings get no ticket unless their probe was named. `fix_time_s` limits the search for
    fixes. `known` are tickets to compare the findings with; auditkit then files none. With `changed_since` auditkit
    checks only what changed since that revision.
    """

    checkout: str
    arms: tuple[RunOptions, ...] = (RunOptions(),)
    targets: tuple[Target, ...] = ()
    probes: tuple[str, ...] = ()
    tickets: Path | None = None
    batch: int | None = None
    label: str | None = None
    whole_source: bool = False
    style: bool = False
    fix_time_s: float = 0.0
    known: Known | None = None
    changed_since: str | None = None

    @property
    def config(self) -> Config:
        """The configuration, which all arms share."""
        return self.arms[0].config


def specimen_dir() -> Path:
    """The bundled specimen, which `auditkit audit` without an argument audits."""
    return bundled_dir("probes") / "specimens" / "gradient_monitoring"


def is_about_specimen(calls: Sequence[str]) -> bool:
    """Whether `auditkit audit` without a checkout means the bundled specimen: this folder has nothing to check.

    Raises BadInputError for a target that neither has.
    """
    here = Path()
    if not calls or config_in(here) is not None or next(source_files(here), None) is not None:
        return not calls
    specimen = PythonFiles(specimen_dir(), import_roots(specimen_dir()))
    for call in calls:
        if specimen.file_of(split_call(call)[0]) is None:
            hint = f"name the checkout: auditkit audit CHECKOUT --target {call}"
            raise BadInputError(f"this folder has no Python files, so it has no {call}", hint)
    return True


def audit(request: AuditRequest, progress: Progress | None = None) -> Run:
    """Run the probes on every target of the checkout, judge them, and file a ticket for each finding.

    Then source probes read the checkout, also one without targets. Raises BadInputError, NothingMeasuredError or
    StoreConflictError, before the first measurement if possible. A target that cannot be loaded is an `error` result,
    not an exception.
    """
    progress = progress or Progress()
    probes = select(catalog_of(request.config), request.probes, request.style or request.config.style)
    repository = TicketFolder(request.tickets) if request.tickets is not None else None
    if repository is not None:
        ensure_writable(repository.folder)
    asked = [probe for probe in probes if probe.scope == "target"]
    # A run of source probes alone starts no interpreter, and runs nothing.
    spec, options = parse_checkout(request.checkout), request.arms[0]
    if spec.revision and request.changed_since:
        raise BadInputError("--changed checks the files as they are", f"leave out @{spec.revision}")
    if request.label == BUNDLED:
        options = replace(options, in_place=True)  # it is ours and writes nothing
    with options.open(spec) if asked else open_checkout(spec) as opened:
        since_ns = time.time_ns()
        opened = apart_from(opened, request.tickets)
        since = request.changed_since
        changed = Changed.since(spec.directory, since, opened.path) if since is not None else None
        place = environment_of(request.label or request.checkout, opened)
        arms = _distinct(request.arms, opened) if asked else ()
        settings = [arm.setting(opened) for arm in arms]
        left_out = LeftOut(opened.path, request.config.exclude)
        found = _targets(request, opened, settings, progress, left_out, changed) if asked else FoundTargets()
        run = _measured(Questions(found.asked, asked, place, found.found_count), settings, progress)
        answers = read_source(_source_questions(request, probes, found.asked, changed), opened, progress)
        lost = found.failure
        if lost is not None and not any(each.outcome.is_result for each in answers):
            raise lost
        passed_over = [] if asked or request.targets else left_out.sentences()
        written = _written(opened, since_ns, bool(asked))
        run = replace(
            run,
            results=with_causes((*run.results, *answers), opened.path),
            notes=(*opened.notes, *passed_over, *found.notes, *run.notes, *written),
            no_target=NoTarget(lost.message, lost.hint or "", isinstance(lost, TargetNotLoadedError)) if lost else None,
            candidates=found.candidates,
            changed=changed.sentence() if changed else "",
            discovery_off=bool(asked) and not (request.targets or request.config.discover),
        )
        run = with_ignores(run, opened.path, set(catalog_of(request.config)))
        paperwork = _paperwork(request, probes, opened.path)
        if settings:
            run = _with_fixes(run, request, repository, opened, paperwork, progress)
            if repository is not None:
                run = with_reproductions(run, without_ticket(run, repository, paperwork), settings[0])
        # While the copy is there: a renamed function is found again by its body.
        if request.known is not None:
            return _beside_tickets(run, request.known, request, paperwork)
        if repository is None:
            return run
        return file_run(run, repository, paperwork)


def _beside_tickets(run: Run, known: Known, request: AuditRequest, paperwork: Paperwork) -> Run:
    """The run with what the tickets say of its findings."""
    asked_in_part = request.targets or request.config.exclude or request.changed_since
    probes = None if asked_in_part else paperwork.probes
    found = {each.fingerprint: each for each in run.results if each.outcome is Outcome.REPRODUCED}
    held = {name for ticket in known.tickets for name in ticket.findings}
    codes = {name: code_of(each, paperwork.read) for name, each in found.items() if name not in held}
    folder = known.folder
    moved = moved_findings(folder, known.tickets, found, codes, paperwork.read) if folder is not None else {}
    now = {old: name for name, old in moved.items()}
    tickets = [
        msgspec.structs.replace(ticket, findings=tuple(now.get(name, name) for name in ticket.findings))
        for ticket in known.tickets
    ]
    baseline = baseline_of(run, tickets, known.baseline, paperwork.ticket_from, probes)
    run = replace(run, baseline=baseline, notes=(*run.notes, *known.notes))
    tracking = {row.result.fingerprint: row.ticket or None for row in rows_of(run)}
    results = (replace(each, ticket=tracking[each.fingerprint]) for each in run.results)
    return replace(run, results=tuple(results))


def _with_fixes(
    run: Run,
    request: AuditRequest,
    repository: TicketFolder | None,
    opened: OpenCheckout,
    paperwork: Paperwork,
    progress: Progress,
) -> Run:
    """The run with the fixes that were searched for: of what will have a new ticket, or of all without a folder."""
    has_libcst = importlib.util.find_spec("libcst") is not None
    if not (request.fix_time_s and run.targets and has_libcst):
        why = NOT_ASKED if not request.fix_time_s else NO_TARGET if has_libcst else NO_LIBCST
        untried = without_ticket(run, repository, paperwork) if repository is not None else ()
        return replace(run, no_fix={one.result.fingerprint: why for group in untried for one in group})
    from auditkit.trials.fix_search import with_fixes  # its libcst is in the extra `audit`

    spec = parse_checkout(request.checkout)
    stable = [probe for probe in select(catalog_of(request.config), ()) if probe.scope == "target"]
    asked = {probe.id: probe for probe in (*paperwork.probes.values(), *stable) if probe.scope == "target"}
    labels = [arm.label for arm in run.matrix] or [""]
    scene = Scene(
        spec=spec,
        opened=opened,
        arms=dict(zip(labels, _distinct(request.arms, opened), strict=True)),
        probes=tuple(asked.values()),
        prefix="" if request.label == BUNDLED else prefix_of(spec),
    )
    return with_fixes(run, without_ticket(run, repository, paperwork, or_fix=True), scene, request.fix_time_s, progress)


def _written(opened: OpenCheckout, since_ns: int, something_ran: bool) -> tuple[str, ...]:
    """A note on the files that the audited code left in the checkout, or would have left there."""
    names = written_since(opened.path, since_ns) if something_ran else []
    where = "the copy that was audited, which is gone" if opened.copied[0] or opened.at_revision else "the checkout"
    return (f"the audited code wrote {listed(names, 3)} into {where}",) if names else ()


def _paperwork(request: AuditRequest, probes: Sequence[ProbeInfo], opened: Path) -> Paperwork:
    spec, config = parse_checkout(request.checkout), request.config
    root = Root.of(spec) if request.label is None else Root(Path.cwd())
    files = {Path(name): root.path(name) for name in request.probes if name.endswith(".py")}
    own = config_in(spec.directory)
    is_own = config.path is None or (own is not None and own.samefile(config.path))
    return Paperwork(
        probes={probe.id: probe for probe in probes},
        batch=next(batch for batch in (request.batch, config.batch, 1) if batch is not None),
        agent=agent_code(config.agent, config.agents) if config.agent else None,
        source=root.path(spec.directory),
        asked_as={probe.id: files[Path(probe.path)] for probe in probes if Path(probe.path) in files},
        # The option that names the configuration, unless it is the checkout's own, which is read anyway.
        options=() if is_own or config.path is None else ("--config", root.path(config.path)),
        agents=config.agents,
        root=root,
        asked_by_name=bool(request.probes),
        read=functools.partial(Place(opened).source, ""),
    )


def _distinct(arms: Sequence[RunOptions], opened: OpenCheckout) -> list[RunOptions]:
    """The arms without those that come to the same interpreter and device as one before."""
    made = [(arm.setting(opened), arm) for arm in arms]
    return list({(setting.interpreter, setting.device): arm for setting, arm in made}.values())


def _targets(
    request: AuditRequest,
    opened: OpenCheckout,
    settings: Sequence[Setting],
    progress: Progress,
    left_out: LeftOut,
    changed: Changed | None,
) -> FoundTargets:
    """Those that the command line names; else those of auditkit.yaml, and with them those that discovery finds."""
    config = request.config
    named = request.targets or config.targets
    is_all = bool(request.targets) or not config.discover
    if is_all or (changed is not None and named):
        files = PythonFiles(opened.path, import_roots(opened.path, config.import_roots))
    if changed is not None and named:
        named = tuple(target for target in named if changed.has(target, files))
    if is_all:
        named = tuple(
            replace(each, contract=Contract.TRAIN_STEP) if each.contract is None and is_step(files, each.call) else each
            for each in named
        )
        return FoundTargets(named, notes=tuple(recorded_notes(opened.source, lambda: files)))
    first, *others = settings
    told = (progress.trying, others)
    more = {"libraries": True} if changed is None else {"only": changed.has}
    return find_targets(opened, first, config.import_roots, *told, left_out=left_out, configured=named, **more)


def _measured(questions: Questions, settings: Sequence[Setting], progress: Progress) -> Run:
    """What the probes said of the targets, in one run over all arms."""
    if not questions.targets:
        return Run(run_id(), questions.place, ())
    progress.targets_known(questions.targets, len(questions.probes) * len(settings))
    runs = [measure(questions, setting, progress) for setting in settings]
    return runs[0] if len(runs) == 1 else combine(runs, [setting.device for setting in settings])


def _source_questions(
    request: AuditRequest, probes: Sequence[ProbeInfo], targets: Sequence[Target], changed: Changed | None
) -> SourceQuestions:
    """Source probes check the targets of the command line; else the whole checkout, or the code about gradients."""
    scope = SourceScope.WHOLE if request.whole_source else SourceScope.GRADIENTS
    read = [probe for probe in probes if probe.scope == "source"]
    named = request.targets or [*request.config.targets, *targets]
    scope = SourceScope.TARGETS if request.targets else scope
    return SourceQuestions(read, scope, named, request.arms[0], files=changed.files if changed else None)


_EXIT_ORDER = (ExitCode.FINDINGS, ExitCode.TARGET_NOT_LOADED, ExitCode.NOTHING_MEASURED, ExitCode.OK)


def exit_code(run: Run, fail_on: Severity = Severity.P4, requires_steps: bool = False) -> ExitCode:
    """Return the exit code of a finished run. An error or a missing device is never a pass.

    A run that found or loaded none of its targets has that code, whatever reading the source found. Else findings at or
    above `fail_on` come first; then a target that could not be loaded; then any probe that ended in an error, or a run
    in which nothing was measured. Of several arms, the one counts whose code comes first in that order. With a baseline
    only new findings count. With `requires_steps`, a training step that was found and not checked comes before
    everything.
    """
    if requires_steps and unchecked_steps(run.candidates):
        return ExitCode.NOTHING_MEASURED
    run = only_new(run)
    if run.matrix:
        read = tuple(result for result in run.results if result.is_of_source)
        arms = [replace(arm.run, results=(*arm.run.results, *read)) for arm in run.matrix]
        return min((exit_code(arm, fail_on) for arm in arms), key=_EXIT_ORDER.index)
    failure = _load_failure(run)
    if failure is not None and (run.no_target is not None or isinstance(failure, TargetNotLoadedError)):
        return failure.exit_code
    if any(result.severity and result.severity.at_least(fail_on) for result in run.results):
        return ExitCode.FINDINGS
    if not all(result.loaded for result in run.results):
        return ExitCode.TARGET_NOT_LOADED
    has_error = any(result.outcome is Outcome.ERROR for result in run.results)
    return ExitCode.NOTHING_MEASURED if has_error or failure is not None else ExitCode.OK


def load_failures(run: Run) -> list[AuditkitError]:
    """What to complain of: of a run, and of each arm, in which nothing could be loaded or measured."""
    if run.matrix:
        failures = [(arm.label, _load_failure(arm.run)) for arm in run.matrix]
        return [type(failure)(f"{label}: {failure.message}") for label, failure in failures if failure]
    failure = _load_failure(run)
    return [failure] if failure else []


def _load_failure(run: Run) -> AuditkitError | None:
    if run.no_target is not None:
        error = TargetNotLoadedError if run.no_target.is_import else NothingMeasuredError
        return error(run.no_target.message, run.no_target.hint)
    results = [result for result in run.results if not result.is_of_source] or run.results
    if (run.changed and all(result.is_of_source for result in results)) or (run.ignored and not results):
        return None  # nothing that changed deals with gradients, or the source ignores all of it
    if not results:
        return NothingMeasuredError("no probe ran")
    if any(result.outcome.is_result for result in results):
        return None
    unloaded = next((result for result in results if not result.loaded), None)
    if unloaded is not None:
        return TargetNotLoadedError(unloaded.message)
    return NothingMeasuredError(f"nothing was measured: {results[0].message}")
