"""Run probes on one target: start the worker, collect what each probe measured, and judge it.

Every requested probe gets a result, whatever happens to the processes that were to produce it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from auditkit.model.enums import DeviceChoice, Reason
from auditkit.model.probe import ProbeInfo
from auditkit.model.target import Target
from auditkit.probing.results import Job, Setting, TargetRun, make_result
from auditkit.probing.sandbox import Worker, WorkerEnd, make_request
from auditkit.probing.worker.process.families import signal_name

PLAN_JOB = "plan"
_TRAFFIC = ("syncs", "launches", "devices", "transfers")


Progress = Callable[[str, str], None]


def run_target(
    target: Target, probes: Sequence[ProbeInfo], setting: Setting, progress: Progress | None = None
) -> TargetRun:
    """Run `probes` on `target`; without probes only find out how it is fed and what it returns.

    `progress(target, probe)` is called as each probe starts.
    """
    run = TargetRun()
    devices = {probe.id: device_for(probe, setting.device) for probe in probes}
    jobs = _collect(target, probes, devices, setting, run, progress)
    _again_on_cpu(target, probes, devices, jobs, setting, run)
    for probe in probes:
        run.results.append(make_result(probe, target, devices[probe.id], jobs.get(probe.id), run, setting))
    return run


def device_for(probe: ProbeInfo, choice: DeviceChoice) -> str:
    """Without a GPU, traffic is simulated and everything else runs on the CPU; `cuda` is settled at `hello`."""
    if choice is not DeviceChoice.AUTO:
        return choice.value
    if probe.instrument in _TRAFFIC or "cpu" not in probe.devices:
        return "simulated" if "simulated" in probe.devices else "cuda"
    return "cpu"


def _collect(
    target: Target,
    probes: Sequence[ProbeInfo],
    devices: dict[str, str],
    setting: Setting,
    run: TargetRun,
    progress: Progress | None,
) -> dict[str, Job]:
    """Run the plan and the probes in forks of one import, or, where that may not fork, each with its own import."""
    jobs = {PLAN_JOB: {"id": PLAN_JOB, "kind": "plan"}}
    for probe in probes:
        if devices[probe.id] in probe.devices:
            jobs[probe.id] = _job(probe, devices[probe.id], setting)

    def settle(has_cuda: bool) -> None:
        """`auto` is `cuda` where the worker finds one; the worker decides the same for itself."""
        if has_cuda and setting.device is DeviceChoice.AUTO:
            devices.update((probe.id, "cuda") for probe in probes)

    collected, fork_refusal = _one_worker(target, list(jobs.values()), setting, run, False, progress, settle)
    if fork_refusal:
        run.notes.append(f"{target.call}: {fork_refusal}; each probe ran in a fresh process")
        collected, _ = _one_worker(target, list(jobs.values()), setting, run, True, progress, settle)
    _note_plan(target.call, run, collected.get(PLAN_JOB))
    return collected


def _note_plan(call: str, run: TargetRun, job: Job | None) -> None:
    """What the plan filled in by itself; or why there is none: what the search said, or how its process ended."""
    for name, value in (run.plan or {}).get("filled", {}).items():
        run.notes.append(f"{call}: {name} was given as {value}; another value: --argument {name}=VALUE")
    failure = job.failure if job is not None else None
    if run.plan is None and failure is not None:
        run.plan_failure = (Reason(failure["reason"]), str(failure["message"]))


def _job(probe: ProbeInfo, device: str, setting: Setting) -> dict[str, Any]:
    return {
        "id": probe.id,
        "kind": "probe",
        "path": str(Path(probe.path).resolve()),
        "instrument": probe.instrument,
        "device": device,
        "contracts": [contract.value for contract in probe.contracts],
        "options": dict(setting.options),
    }


Settle = Callable[[bool], None]


def _one_worker(
    target: Target,
    jobs: list[dict[str, Any]],
    setting: Setting,
    run: TargetRun,
    fresh_imports: bool,
    progress: Progress | None,
    settle: Settle,
) -> tuple[dict[str, Job], str]:
    """The jobs' messages, and the reason why the worker refused to fork ("" if it did not)."""
    auto = setting.device is DeviceChoice.AUTO
    request = make_request(
        target, setting.checkout, setting.import_roots, jobs, setting.time_limit_s, auto, fresh_imports
    )
    worker = Worker(setting.interpreter, request, setting.time_limit_s, setting.cancelled)
    collected: dict[str, Job] = {}
    current: Job | None = None
    loaded = False
    try:
        for message in worker.messages():
            kind = message.get("type")
            if kind == "hello":
                run.environment = message
                settle(bool(message.get("cuda")))
            elif kind == "load_error" and current is None:
                _note_load_failure(run, message["reason"], message["message"], message.get("hint", ""))
            elif kind == "loaded":
                loaded = True
                if not message["fork_safe"] and not fresh_imports:
                    return {}, str(message["why"])
            elif kind == "start":
                current = collected.setdefault(message["job"], Job())
                if progress is not None and message["job"] != PLAN_JOB:
                    progress(target.call, message["job"])
            elif kind == "end" and current is not None:
                current.end = message
            elif current is not None:
                # A fresh import may fail where the first one did not: that is the failure of this job alone.
                current.messages.append({**message, "type": "failed"} if kind == "load_error" else message)
                if kind == "plan":
                    run.plan = message["plan"]
                elif kind == "device":
                    run.environment["device_name"] = message["name"]
    except OSError as error:
        text = f"{error.filename or setting.interpreter} cannot be started: {error.strerror}"
        _note_load_failure(run, "no_interpreter", text, "name another with --python")
        return collected, ""
    _note_early_end(target, run, worker.end, current, loaded, setting)
    return collected, ""


def _note_load_failure(run: TargetRun, reason: str, message: str, hint: str) -> None:
    run.load_reason, run.load_failure, run.load_hint = Reason(reason), message, hint


def _note_early_end(
    target: Target, run: TargetRun, end: WorkerEnd, current: Job | None, loaded: bool, setting: Setting
) -> None:
    """A worker that stopped before its time: during the import, or in a job that it ran itself."""
    if run.load_failure or (loaded and (current is None or current.end is not None)):
        return
    reason, message = _describe_end(end, setting.time_limit_s)
    if not end.begun:
        text = f"{setting.interpreter} is no Python that can run the worker: {message}"
        _note_load_failure(run, "no_interpreter", text, _tail_hint(end))
    elif not loaded:
        what = target.call.split(":")[0] if end.ready else "torch"
        _note_load_failure(run, reason.value, f"importing {what}: {message}", _tail_hint(end))
    elif current is not None:
        current.end = {"type": "end", "status": "error", "reason": reason.value, "message": message}


def _describe_end(end: WorkerEnd, time_limit_s: float) -> tuple[Reason, str]:
    if end.timed_out:
        return (
            Reason.TIMEOUT,
            f"no answer within {time_limit_s:g} s; the process and all it started were ended",
        )
    if end.returncode is not None and end.returncode < 0:
        return Reason.CRASH, f"the process died of {signal_name(-end.returncode)}"
    return Reason.EXIT, f"the process ended itself with status {end.returncode} (sys.exit or os._exit)"


def _tail_hint(end: WorkerEnd) -> str:
    lines = [line for line in end.output_tail.splitlines() if line.strip()]
    return f"its last output: {lines[-1].strip()[:200]}" if lines else ""


def _keep_devices(_has_cuda: bool) -> None:
    return


def _again_on_cpu(
    target: Target,
    probes: Sequence[ProbeInfo],
    devices: dict[str, str],
    jobs: dict[str, Job],
    setting: Setting,
    run: TargetRun,
) -> None:
    """`auto`: code that the simulated device breaks is counted on plain CPU tensors, and the note says so."""
    if setting.device is not DeviceChoice.AUTO or run.plan is None:
        return
    failed = {probe.id: _simulation_failure(devices[probe.id], jobs.get(probe.id)) for probe in probes}
    on_cpu = [probe for probe in probes if failed[probe.id] and "cpu" in probe.devices]
    again = [dict(_job(probe, "cpu", setting), plan=run.plan) for probe in on_cpu]
    if not again:
        return
    collected, _ = _one_worker(target, again, setting, run, True, None, _keep_devices)
    for probe_id, job in collected.items():
        if job.failure is None:
            text = f"the simulated device failed ({failed[probe_id]}); counted on plain CPU tensors instead"
            job.messages.append({"type": "note", "text": text})
            jobs[probe_id], devices[probe_id] = job, "cpu"


def _simulation_failure(device: str, job: Job | None) -> str:
    """What the target raised on the simulated device, or ""."""
    failure = job.failure if job is not None and device == "simulated" else None
    return str(failure["message"]) if failure is not None and failure.get("reason") == "exception" else ""
