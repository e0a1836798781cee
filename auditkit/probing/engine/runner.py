"""Run probes on one target: every requested probe gets a result, whatever happens to the processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from auditkit.assets import bundled_dir
from auditkit.model.enums import DeviceChoice, Outcome, Reason
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.probing.engine import protocol
from auditkit.probing.engine.protocol import TorchCalls
from auditkit.probing.engine.results import Asked, TargetRun, in_words, make_result
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.session import Job, Session

PLAN: protocol.Job = {"id": "plan", "kind": "plan"}
_Given = TypeVar("_Given")
_Done = TypeVar("_Done")
Attribute = Callable[[protocol.TorchCalls, Sequence[ProbeResult]], Sequence[ProbeResult]]
TRAFFIC = ("syncs", "launches", "devices", "transfers")


def run_target(
    target: Target,
    probes: Sequence[ProbeInfo],
    setting: Setting,
    started: Callable[[str, str], None] = lambda *_: None,
    finished: Callable[[ProbeResult], None] = lambda _: None,
    ordinal: int = 0,
    attribute: Attribute | None = None,
    session: type[Session] = Session,
) -> TargetRun:
    """Run `probes` on `target`; without probes only find out how it is fed and what it returns.

    `started(target, probe)` is called when each probe starts, `finished(result)` when it is judged. `ordinal` counts
    the earlier targets that call the same function. `attribute` decides which findings belong to torch's own functions.
    `session` runs the jobs, by default in a worker.
    """
    run = TargetRun()
    by_id = {probe.id: probe for probe in probes}
    results = _TargetResults(target, by_id, setting, finished, ordinal, run, attribute, session)
    asked = ((probe, device) for probe, device in results.devices() if device in probe.devices)
    jobs = [PLAN, *(job_of(probe, device, setting.options) for probe, device in asked)]

    run.session = session(setting, jobs, target)
    for job in run.session.jobs(lambda job_id: None if job_id == PLAN["id"] else started(target.call, job_id)):
        if job.id == PLAN["id"]:
            _note_plan(run, job)
        else:
            results.add(job)
    results.run_again_on_cpu()
    results.run_with_other_guesses()
    results.report_attributed()
    run.results = results.all()
    return run


def in_parallel(
    work: Callable[[_Given], _Done], jobs: Iterable[_Given], workers: int, cancelled: threading.Event
) -> list[_Done]:
    """Return `work(job)` for each job, in order; Ctrl-C ends the workers at once, not at their time limit."""
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        return list(pool.map(work, jobs))
    except BaseException:
        cancelled.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def device_for(probe: ProbeInfo, choice: DeviceChoice, has_cuda: bool = False) -> str:
    """Return the device of a probe: without a GPU, traffic is simulated and the rest runs on the CPU."""
    if choice is not DeviceChoice.AUTO:
        return choice.value
    if probe.devices == ("cpu",):
        return "cpu"
    if has_cuda:
        return "cuda"
    if probe.instrument in TRAFFIC or "cpu" not in probe.devices:
        return "simulated" if "simulated" in probe.devices else "cuda"
    return "cpu"


def _note_plan(run: TargetRun, job: Job) -> None:
    """Note the arguments that the plan filled in; or why there is no plan."""
    run.plan = job.plan
    loaded_by = job.loaded_by
    for number, how in enumerate(loaded_by.describe()):
        reason = f" ({loaded_by.package_error})" if loaded_by.package_error and not number else ""
        run.notes.append(f"{how}{reason}")
    if run.plan is None:
        run.plan_failure = job.failure
        return
    device = run.plan.get("device", "cpu")
    if device != "cpu":
        named = "the simulated device" if device == "simulated" else device
        run.notes.append(f"it does not run on the CPU; it was fed on {named}")
    filled = run.plan.get("filled", {})
    if filled:
        given = ", ".join(f"{name}={value}" for name, value in filled.items())
        run.notes.append(f"given {given}; other values: --argument NAME=VALUE")


def job_of(probe: ProbeInfo, device: str, options: Mapping[str, Any]) -> protocol.Job:
    """Return the job that runs one probe in a worker."""
    return {
        "id": probe.id,
        "kind": "probe",
        "path": str(Path(probe.path).resolve()),
        "forms": str(bundled_dir("probes") / "forms.py"),
        "instrument": probe.instrument,
        "device": device,
        "devices": list(probe.devices),
        "contracts": [contract.value for contract in probe.contracts],
        "options": dict(options),
    }


@dataclass
class _TargetResults:
    """The results of one target's probes, each made when its job ends."""

    target: Target
    probes: Mapping[str, ProbeInfo]
    setting: Setting
    finished: Callable[[ProbeResult], None]
    ordinal: int
    run: TargetRun
    attribute: Attribute | None
    session: type[Session]
    done: dict[str, ProbeResult] = field(default_factory=dict)
    broken_by_simulation: list[Job] = field(default_factory=list)
    doubted: list[tuple[Asked, ProbeResult]] = field(default_factory=list)
    perhaps_torchs: list[ProbeResult] = field(default_factory=list)

    def devices(self) -> list[tuple[ProbeInfo, str]]:
        """Return the device of each probe; what a worker finds can still change it."""
        has_cuda = self.run.session is not None and self.run.session.has_cuda
        return [(probe, device_for(probe, self.setting.device, has_cuda)) for probe in self.probes.values()]

    def add(self, job: Job) -> None:
        """Judge an ended job; one that the simulated device broke waits to run on plain tensors."""
        probe, device = next(each for each in self.devices() if each[0].id == job.id)
        # Native code crashes because a simulated tensor has no storage.
        broken = (Reason.EXCEPTION, Reason.CRASH)
        is_broken = device == "simulated" and job.failure is not None and job.failure.reason in broken
        plan = self.run.plan
        runs_on_cpu = plan is not None and plan.get("device", "cpu") == "cpu"
        if is_broken and self.setting.device is DeviceChoice.AUTO and "cpu" in probe.devices and runs_on_cpu:
            self.broken_by_simulation.append(job)
        else:
            self._settle(probe, device, job)

    def run_again_on_cpu(self) -> None:
        """Count on plain CPU tensors, with a note, if the simulated device broke the code (`auto`)."""
        broken = {job.id: job for job in self.broken_by_simulation}
        if not broken or self.run.plan is None:
            return
        jobs = [job_of(self.probes[name], "cpu", self.setting.options) for name in broken]
        for job in jobs:
            job["plan"] = self.run.plan
        session = self.session(self.setting, jobs, self.target)
        again = {job.id: job for job in session.jobs() if job.failure is None}
        for name, before in broken.items():
            if name not in again:
                self._settle(self.probes[name], "simulated", before)
                continue
            why = before.failure.message if before.failure is not None else ""
            again[name].notes.append(f"the simulated device failed ({why}); counted on plain CPU tensors instead")
            self._settle(self.probes[name], "cpu", again[name])

    def run_with_other_guesses(self) -> None:
        """Drop findings that disappear with another plausible value of a guessed argument."""
        doubted, plan = self.doubted, self.run.plan
        if not doubted or plan is None:
            return
        others = plan.get("others", {})
        target = replace(self.target, arguments={**self.target.arguments, **others})
        jobs = [PLAN, *(job_of(asked.probe, asked.device, self.setting.options) for asked, _ in doubted)]
        session = self.session(self.setting, jobs, target)
        again = {job.id: job for job in session.jobs()}
        run = TargetRun(session, again[PLAN["id"]].plan if PLAN["id"] in again else None)
        for asked, before in doubted:
            after = make_result(asked, again.get(asked.probe.id), run, self.setting.checkout)
            self._finish(_with_the_other(before, after, plan))

    def report_attributed(self) -> None:
        """Report findings about a target that calls torch's own functions, after attributing them."""
        calls = self.run.plan.get("torch_calls") if self.run.plan is not None else None
        if calls and self.attribute is not None and self.perhaps_torchs:
            for result in self.attribute(cast("TorchCalls", calls), self.perhaps_torchs):
                self._report(result)

    def all(self) -> list[ProbeResult]:
        """Return one result for each probe, in order, also for one without a job."""
        for probe, device in self.devices():
            if probe.id not in self.done:
                self._settle(probe, device, None)
        return [self.done[name] for name in self.probes]

    def _settle(self, probe: ProbeInfo, device: str, job: Job | None) -> None:
        recorded, call = self.setting.recorded, self.target.call
        met_by = self.target.met_by or (recorded.met_by(call) if recorded is not None else None)
        asked = Asked(probe, call, device, self.setting.policy, self.ordinal, met_by, not self.target.found)
        result = make_result(asked, job, self.run, self.setting.checkout)
        result = replace(result, met_by=met_by or result.met_by)
        is_guessed = self.run.plan is not None and bool(self.run.plan.get("others"))
        if is_guessed and result.outcome is Outcome.REPRODUCED:
            self.doubted.append((asked, result))
        else:
            self._finish(result)

    def _finish(self, result: ProbeResult) -> None:
        calls_torch = self.run.plan is not None and self.run.plan.get("torch_calls")
        if result.outcome is Outcome.REPRODUCED and calls_torch and self.attribute is not None:
            self.perhaps_torchs.append(result)
        else:
            self._report(result)

    def _report(self, result: ProbeResult) -> None:
        self.done[result.probe] = result
        self.finished(result)


def _with_the_other(before: ProbeResult, after: ProbeResult, plan: protocol.Plan) -> ProbeResult:
    """Return a finding with its result under the second guesses; not reproduced if they make it disappear."""
    others = plan.get("others", {})
    other = " and ".join(f"{name}={value}" for name, value in others.items())
    if after.outcome is Outcome.REPRODUCED:
        return replace(before, notes=(*before.notes, f"reproduced with {other} as well"))
    if after.outcome is not Outcome.NOT_REPRODUCED:
        return before
    guessed = in_words({name: value for name, value in plan.get("filled", {}).items() if name in others})
    message = (
        f"not counted: {before.message}; this was found with {guessed}, and not with {other} ({after.message}): "
        f"give {' and '.join(others)} with --argument"
    )
    return replace(
        before, outcome=Outcome.NOT_REPRODUCED, message=message, severity=None, location=None, excerpt=None, law=""
    )
