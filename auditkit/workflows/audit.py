"""The main job: from a checkout to a judged run, and from its findings to tickets."""

from __future__ import annotations

import contextlib
import datetime
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path

import auditkit
from auditkit.assets import bundled_dir
from auditkit.errors import AuditkitError, ExitCode, NothingMeasuredError, TargetNotLoadedError
from auditkit.model.enums import Contract, DeviceChoice, Outcome, Severity, Takes
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import Environment, ProbeResult, Run, TargetReading, fingerprint
from auditkit.model.target import Target
from auditkit.probing.catalog import load_catalog, select
from auditkit.probing.checkout import OpenCheckout, import_roots, open_checkout, parse_checkout
from auditkit.probing.results import DEFAULT_TIME_LIMIT_S, Setting, TargetRun
from auditkit.probing.runner import run_target
from auditkit.rules.severity import judge_severity
from auditkit.store.config import Config
from auditkit.store.repository import Repository
from auditkit.workflows.filing import Paperwork, file_run
from auditkit.workflows.targets import find_targets

PARALLEL_TARGETS = 2


@dataclass(frozen=True)
class AuditRequest:
    """What to audit and where findings go; None takes the configuration's word, then the default.

    `tickets` of None files nothing. `command` is what the user typed, for the tickets' appendix.
    """

    checkout: str
    config: Config = field(default_factory=Config)
    python: str | None = None
    targets: tuple[Target, ...] = ()
    probes: tuple[str, ...] = ()
    device: DeviceChoice = DeviceChoice.AUTO
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    tickets: Path | None = None
    batch: int | None = None
    agent: str | None = None
    command: str = ""
    label: str | None = None


@dataclass(frozen=True)
class Progress:
    """Told what is going on; every call may come from another thread."""

    targets_known: Callable[[Sequence[Target], int], None] = lambda *_: None
    trying: Callable[[str], None] = lambda *_: None
    probe_started: Callable[[str, str], None] = lambda *_: None


def specimen_dir() -> Path:
    """The bundled specimen, which `auditkit audit` without an argument audits."""
    return bundled_dir("probes") / "specimens" / "gradient_monitoring"


def audit(request: AuditRequest, progress: Progress | None = None) -> Run:
    """Run the probes on every target of the checkout, judge them, and file a ticket for each finding.

    Raises BadInputError, NothingMeasuredError or StoreConflictError before anything is measured, where
    that can be known. A target that cannot be loaded is an `error` result, not an exception.
    """
    progress = progress or Progress()
    catalog = load_catalog(request.config.probes_dir)
    probes = select(catalog, request.probes)
    repository = Repository(request.tickets) if request.tickets is not None else None
    if repository is not None:
        repository.ensure_writable()
    with open_checkout(request.checkout, request.python or request.config.python) as opened:
        setting = _setting(request, opened, probes)
        targets, notes = _targets(request, opened, setting, progress)
        progress.targets_known(targets, len(probes))
        runs = list(_run_all(targets, probes, setting, progress))
    environment = _environment(request, opened, setting, runs)
    results = _judged(runs, targets, request.config.severity, {probe.id: probe for probe in probes})
    readings = tuple(map(_reading, targets, runs, repeat(not (request.targets or request.config.targets))))
    run = Run(_run_id(), environment, results, readings, (*opened.notes, *notes, *_run_notes(runs)))
    return run if repository is None else file_run(run, repository, _paperwork(request, probes))


def _paperwork(request: AuditRequest, probes: Sequence[ProbeInfo]) -> Paperwork:
    spec = parse_checkout(request.checkout)
    return Paperwork(
        probes={probe.id: probe for probe in probes},
        batch=next(batch for batch in (request.batch, request.config.batch, 1) if batch is not None),
        agent=request.agent or request.config.agent,
        source=spec.text.removesuffix(f"@{spec.revision}") if spec.revision else spec.text,
        command=request.command,
    )


def exit_code(run: Run, fail_on: Severity = Severity.P4) -> ExitCode:
    """What a finished run says to the shell. An error or a missing device is never a pass.

    Findings at or above `fail_on` come first; then a target that could not be loaded; then any probe that
    ended in an error, or a run in which nothing was measured.
    """
    outcomes = {result.outcome for result in run.results}
    if any(result.severity and result.severity.at_least(fail_on) for result in run.results):
        return ExitCode.FINDINGS
    if not all(result.loaded for result in run.results):
        return ExitCode.TARGET_NOT_LOADED
    if Outcome.ERROR in outcomes or not outcomes & {Outcome.REPRODUCED, Outcome.NOT_REPRODUCED}:
        return ExitCode.NOTHING_MEASURED
    return ExitCode.OK


def _setting(request: AuditRequest, opened: OpenCheckout, probes: Sequence[ProbeInfo]) -> Setting:
    policy = {probe.id: {k: v for k, v in request.config.policy.items() if k in probe.policy} for probe in probes}
    return Setting(
        checkout=opened.path,
        interpreter=str(opened.interpreter),
        import_roots=import_roots(opened.path, request.config.import_roots),
        device=request.device,
        time_limit_s=request.time_limit_s,
        policy=policy,
    )


def _targets(
    request: AuditRequest, opened: OpenCheckout, setting: Setting, progress: Progress
) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    named = request.targets or request.config.targets
    if named:
        return tuple(named), ()
    found = find_targets(opened, setting, request.config.import_roots, progress.trying)
    return found.targets, found.notes


def _run_all(
    targets: Sequence[Target], probes: Sequence[ProbeInfo], setting: Setting, progress: Progress
) -> Iterator[TargetRun]:
    """Two targets at a time: counts do not change under load, and no time is measured."""

    def one(target: Target) -> TargetRun:
        return run_target(target, probes, setting, progress.probe_started)

    pool = ThreadPoolExecutor(max_workers=PARALLEL_TARGETS)
    try:
        yield from pool.map(one, targets)
    except BaseException:
        setting.cancelled.set()  # Ctrl-C: the workers are ended now, not at their time limit
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _reading(target: Target, run: TargetRun, found: bool) -> TargetReading:
    """The target with what its plan found out, where there is one."""
    if run.plan is None:
        return TargetReading(target, found=found)
    plan = run.plan
    learnt = replace(
        target,
        contract=Contract(plan["contract"]),
        takes=Takes(plan["feed"]["takes"]),
        setup=plan["feed"]["setup"] or target.setup,
    )
    roles = {role: entry["path"] for role, entry in plan["roles"].items()}
    return TargetReading(learnt, roles, plan["answer_kind"], found)


def _environment(
    request: AuditRequest, opened: OpenCheckout, setting: Setting, runs: Sequence[TargetRun]
) -> Environment:
    said = next((run.environment for run in runs if run.environment), {})
    devices = {result.device for run in runs for result in run.results if result.measurements}
    device = "cuda" if "cuda" in devices else "cpu"
    if devices == {"simulated"}:
        device = "simulated"
    return Environment(
        checkout=request.label or request.checkout,
        # The bundled specimen is part of auditkit: its version says which one it is.
        revision="" if request.label else opened.revision,
        dirty=False if request.label else opened.dirty,
        python=str(said.get("python", "")),
        torch=str(said.get("torch", "")),
        device=device,
        device_name=str(said.get("device_name") or _processor_name()),
        interpreter=setting.interpreter,
        platform=str(said.get("platform", "")),
        auditkit=auditkit.__version__,
    )


def _processor_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "CPU"


def _judged(
    runs: Sequence[TargetRun],
    targets: Sequence[Target],
    overrides: Mapping[str, Severity],
    probes: Mapping[str, ProbeInfo],
) -> tuple[ProbeResult, ...]:
    """All results, with the policy's severity and, where one function is two targets, an ordinal."""
    judged = []
    seen: dict[str, int] = {}
    for run, target in zip(runs, targets, strict=True):
        ordinal = seen.get(target.call, 0)
        seen[target.call] = ordinal + 1
        for result in run.results:
            severity = judge_severity(probes[result.probe].severity, overrides, result)
            print_ = fingerprint(result.probe, target.call, ordinal)
            judged.append(replace(result, severity=severity, fingerprint=print_))
    return tuple(judged)


def _run_notes(runs: Sequence[TargetRun]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for run in runs for note in run.notes))


def _run_id() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def load_failure(run: Run) -> AuditkitError | None:
    """The error to show where no target could be loaded at all, or nothing could be measured."""
    if not run.results:
        return NothingMeasuredError("no probe ran")
    if not any(result.loaded for result in run.results):
        return TargetNotLoadedError(run.results[0].message)
    if not any(result.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED) for result in run.results):
        return NothingMeasuredError(f"nothing was measured: {run.results[0].message}")
    return None
