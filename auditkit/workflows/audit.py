"""The main job: from a checkout to a judged run, and from its findings to tickets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit.assets import bundled_dir
from auditkit.errors import AuditkitError, ExitCode, NothingMeasuredError, TargetNotLoadedError
from auditkit.model.enums import Outcome, Severity
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import ProbeResult, Run
from auditkit.model.target import Target
from auditkit.probing.catalog import load_catalog, read_probe, select
from auditkit.probing.causes import with_causes
from auditkit.probing.checkout import OpenCheckout, open_checkout, parse_checkout
from auditkit.probing.sandbox import Setting
from auditkit.store.config import Config, find_config
from auditkit.store.repository import Repository
from auditkit.workflows.filing import Paperwork, file_run
from auditkit.workflows.matrix import combine
from auditkit.workflows.measuring import Progress, Questions, measure, run_id
from auditkit.workflows.placing import folders_of
from auditkit.workflows.run_options import RunOptions
from auditkit.workflows.source_audit import SourceQuestions, SourceScope, read_source, source_environment
from auditkit.workflows.targets import find_targets, first_candidate


@dataclass(frozen=True)
class AuditRequest:
    """What to audit and where findings go; None takes the configuration's word, then the default.

    `arms` are the options of each column of the table, alike but for interpreter and device. `tickets` of None
    files nothing. `command` is what the user typed, for the tickets' appendix. `whole_source` lets source
    probes ask about every module, not only about those that deal with gradients.
    """

    checkout: str
    arms: tuple[RunOptions, ...] = (RunOptions(),)
    targets: tuple[Target, ...] = ()
    probes: tuple[str, ...] = ()
    tickets: Path | None = None
    batch: int | None = None
    agent: str | None = None
    command: str = ""
    label: str | None = None
    whole_source: bool = False

    @property
    def config(self) -> Config:
        """The configuration, which all arms share."""
        return self.arms[0].config


def specimen_dir() -> Path:
    """The bundled specimen, which `auditkit audit` without an argument audits."""
    return bundled_dir("probes") / "specimens" / "gradient_monitoring"


def audit(request: AuditRequest, progress: Progress | None = None) -> Run:
    """Run the probes on every target of the checkout, judge them, and file a ticket for each finding.

    Source probes read the checkout after that, and answer where it has no target, too. Raises
    BadInputError, NothingMeasuredError or StoreConflictError before anything is measured, where that can
    be known. A target that cannot be loaded is an `error` result, not an exception.
    """
    progress = progress or Progress()
    catalog = load_catalog(request.config.probes_dir)
    probes = select(catalog, request.probes)
    repository = Repository(request.tickets) if request.tickets is not None else None
    if repository is not None:
        repository.ensure_writable()
    asked = [probe for probe in probes if probe.scope == "target"]
    python = request.arms[0].interpreter if asked else None
    with open_checkout(request.checkout, python) as opened:
        run, failure = _measured(request, opened, asked, progress)
        questions = _source_questions(request, [probe for probe in probes if probe.scope == "source"], run)
        answers = read_source(questions, opened, progress)
        if failure is not None and not answers.are_any:
            raise failure
        run = replace(run, results=with_causes((*run.results, *answers.results), opened.path))
    run = replace(run, notes=(*opened.notes, *run.notes, *answers.notes))
    return run if repository is None else file_run(run, repository, _paperwork(request, probes))


def _measured(
    request: AuditRequest,
    opened: OpenCheckout,
    probes: Sequence[ProbeInfo],
    progress: Progress,
) -> tuple[Run, AuditkitError | None]:
    """What the probes said of the targets; and, where no target can be fed, the error that says so.

    The likeliest candidate is then asked all the same: every probe has a result that says why there is no
    answer. A run without probes is of the source alone: it starts no interpreter.
    """
    label = request.label or request.checkout
    if not probes:
        return Run(run_id(), source_environment(label, opened), ()), None
    settings = _settings(request, opened)
    failure = None
    try:
        targets, notes = _targets(request, opened, settings, progress)
    except (NothingMeasuredError, TargetNotLoadedError) as error:
        failure, notes = error, (error.message,)
        candidate = first_candidate(opened, request.config.import_roots)
        if candidate is None:
            return Run(run_id(), source_environment(label, opened), (), notes=notes), failure
        targets = (candidate,)
    progress.targets_known(targets, len(probes) * len(settings))
    found = not (request.targets or request.config.targets)
    questions = Questions(targets, probes, label, found)
    runs = [measure(questions, opened, setting, progress) for setting in settings]
    run = runs[0] if len(runs) == 1 else combine(runs, [setting.device for setting in settings])
    return replace(run, notes=(*notes, *run.notes)), failure


def _source_questions(request: AuditRequest, probes: Sequence[ProbeInfo], run: Run) -> SourceQuestions:
    """Targets named on the command line are the question; else the whole checkout or what deals with gradients."""
    scope = SourceScope.WHOLE if request.whole_source else SourceScope.GRADIENTS
    return SourceQuestions(
        probes=probes,
        scope=SourceScope.TARGETS if request.targets else scope,
        targets=request.targets or [*request.config.targets, *(reading.target for reading in run.targets)],
        options=request.arms[0],
    )


def _paperwork(request: AuditRequest, probes: Sequence[ProbeInfo]) -> Paperwork:
    spec = parse_checkout(request.checkout)
    return Paperwork(
        probes={probe.id: probe for probe in probes},
        batch=next(batch for batch in (request.batch, request.config.batch, 1) if batch is not None),
        agent=request.agent or request.config.agent,
        source=spec.text.removesuffix(f"@{spec.revision}") if spec.revision else spec.text,
        command=request.command,
        asked_as={read_probe(Path(name)).id: name for name in request.probes if name.endswith(".py")},
        options=_config_words(request.config, spec.directory),
        agents=request.config.agents,
        folders=folders_of(request.config),
    )


def _config_words(config: Config, directory: Path) -> tuple[str, ...]:
    """The option that names the configuration, unless it is the checkout's own, which is read anyway."""
    own = find_config(directory)
    if config.path is None or (own is not None and own.samefile(config.path)):
        return ()
    return ("--config", str(config.path))


_EXIT_ORDER = (ExitCode.FINDINGS, ExitCode.TARGET_NOT_LOADED, ExitCode.NOTHING_MEASURED, ExitCode.OK)


def exit_code(run: Run, fail_on: Severity = Severity.P4) -> ExitCode:
    """What a finished run says to the shell. An error or a missing device is never a pass.

    Findings at or above `fail_on` come first; then a target that could not be loaded; then any probe that
    ended in an error, or a run in which nothing was measured. Reading the source is no measuring of
    targets. Of several arms, the one counts whose code comes first in that order.
    """
    if run.matrix:
        read = tuple(result for result in run.results if result.is_of_source)
        arms = [replace(arm.run, results=(*arm.run.results, *read)) for arm in run.matrix]
        return min((exit_code(arm, fail_on) for arm in arms), key=_EXIT_ORDER.index)
    if any(result.severity and result.severity.at_least(fail_on) for result in run.results):
        return ExitCode.FINDINGS
    if not all(result.loaded for result in run.results):
        return ExitCode.TARGET_NOT_LOADED
    if any(result.outcome is Outcome.ERROR for result in run.results) or not _has_answer(run):
        return ExitCode.NOTHING_MEASURED
    return ExitCode.OK


def _about_targets(run: Run) -> list[ProbeResult]:
    """The results of probes that were asked about targets; those of the source where none were."""
    return [result for result in run.results if not result.is_of_source] or list(run.results)


def _has_answer(run: Run) -> bool:
    return any(result.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED) for result in _about_targets(run))


def _settings(request: AuditRequest, opened: OpenCheckout) -> list[Setting]:
    """One for each arm. Raises BadInputError for an interpreter that is not there."""
    made = [replace(arm, named=bool(request.probes)).setting(opened) for arm in request.arms]
    return list({(setting.interpreter, setting.device): setting for setting in made}.values())


def _targets(
    request: AuditRequest, opened: OpenCheckout, settings: Sequence[Setting], progress: Progress
) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    named = request.targets or request.config.targets
    if named:
        return tuple(named), ()
    found = find_targets(opened, settings[0], request.config.import_roots, progress.trying, settings[1:])
    return found.targets, found.notes


def load_failures(run: Run) -> list[AuditkitError]:
    """What to complain of: of a run, and of each arm, in which nothing could be loaded or measured."""
    if run.matrix:
        failures = [(arm.label, _load_failure(arm.run)) for arm in run.matrix]
        return [type(failure)(f"{label}: {failure.message}") for label, failure in failures if failure]
    failure = _load_failure(run)
    return [failure] if failure else []


def _load_failure(run: Run) -> AuditkitError | None:
    results = _about_targets(run)
    if not results:
        return NothingMeasuredError("no probe ran")
    if not any(result.loaded for result in results):
        return TargetNotLoadedError(results[0].message)
    return None if _has_answer(run) else NothingMeasuredError(f"nothing was measured: {results[0].message}")
