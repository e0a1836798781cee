"""From a worker's messages to one result per probe: settings, what was collected, and the judgement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auditkit.model.enums import DeviceChoice, Evidence, Outcome, Reason
from auditkit.model.measurement import Location, Measurement
from auditkit.model.probe import Policy, ProbeInfo
from auditkit.model.run import ProbeResult, fingerprint
from auditkit.model.target import Target
from auditkit.probing.excerpts import cut_excerpt
from auditkit.probing.judging import JudgingFailedError, judge

DEFAULT_TIME_LIMIT_S = 120.0


@dataclass(frozen=True)
class Setting:
    """Where and how probes run: the checkout's path and interpreter, the device, the limits."""

    checkout: Path
    interpreter: str
    import_roots: tuple[Path, ...]
    device: DeviceChoice = DeviceChoice.AUTO
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    options: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = Policy()  # noqa: RUF009 - it is frozen
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass
class TargetRun:
    """What a worker said about one target: its environment, its plan, one result per probe."""

    environment: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] | None = None
    results: list[ProbeResult] = field(default_factory=list)
    plan_failure: tuple[Reason, str] | None = None
    load_failure: str = ""
    load_hint: str = ""
    load_reason: Reason | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class Job:
    """The messages of one job, until it is judged."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None

    def first(self, kind: str) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["type"] == kind), None)

    @property
    def failure(self) -> dict[str, Any] | None:
        """Why this job has no answer: what it said itself, else how its process ended."""
        said = self.first("failed")
        if said is not None:
            return said
        return self.end if self.end is not None and self.end.get("status") != "ok" else None


def make_result(
    probe: ProbeInfo, target: Target, device: str, job: Job | None, run: TargetRun, setting: Setting
) -> ProbeResult:
    common: dict[str, Any] = {
        "probe": probe.id,
        "probe_version": probe.version,
        "target": target.call,
        "fingerprint": fingerprint(probe.id, target.call),
        "device": device,
    }

    def without_answer(outcome: Outcome, reason: Reason | None, message: str, **more: Any) -> ProbeResult:
        return ProbeResult(outcome=outcome, reason=reason, message=message, **common, **more)

    contract = run.plan["contract"] if run.plan is not None else None
    if contract is not None and contract not in [known.value for known in probe.contracts]:
        text = f"the probe does not cover the contract {contract}"
        return without_answer(Outcome.NOT_APPLICABLE, None, text)
    if device not in probe.devices:
        text = f"it can be answered on {' or '.join(probe.devices)} alone; asked on {device}"
        return without_answer(Outcome.UNAVAILABLE, Reason.NO_DEVICE, text)
    if device == "cuda" and run.environment and not run.environment.get("cuda"):
        return without_answer(Outcome.UNAVAILABLE, Reason.NO_DEVICE, "there is no CUDA device on this machine")
    if run.load_failure:
        hint = f" ({run.load_hint})" if run.load_hint else ""
        return without_answer(Outcome.ERROR, run.load_reason, run.load_failure + hint, loaded=False)
    if run.plan is None or job is None:
        reason, text = run.plan_failure or (Reason.PROTOCOL, "the worker ended before this probe ran")
        return without_answer(Outcome.ERROR, reason, text)
    return _judged(probe, job, common, without_answer, setting)


def _judged(
    probe: ProbeInfo,
    job: Job,
    common: dict[str, Any],
    without_answer: Callable[..., ProbeResult],
    setting: Setting,
) -> ProbeResult:
    measurements = tuple(Measurement.from_json(m) for m in job.messages if m["type"] == "measurement")
    location = _location(job)
    took = job.first("took")
    more: dict[str, Any] = {
        "measurements": measurements,
        "location": location,
        "excerpt": cut_excerpt(setting.checkout, location) if location else None,
        "notes": _notes(job),
        "duration_s": float(took["seconds"]) if took else 0.0,
    }
    failure = job.failure
    if failure is not None:
        return without_answer(Outcome.ERROR, Reason(failure["reason"]), failure["message"], **more)
    for kind, outcome in (("not_applicable", Outcome.NOT_APPLICABLE), ("unavailable", Outcome.UNAVAILABLE)):
        said = job.first(kind)
        if said is not None:
            reason = Reason(said["reason"]) if said.get("reason") else None
            return without_answer(outcome, reason, said["message"], **more)
    if not measurements:
        return without_answer(Outcome.ERROR, Reason.PROTOCOL, "the probe measured nothing", **more)
    try:
        verdict = judge(probe, measurements, setting.policy.thresholds_of(probe))
    except JudgingFailedError as error:
        return without_answer(Outcome.ERROR, Reason.EXCEPTION, f"judging failed: {error}", **more)
    reproduced = verdict.outcome is Outcome.REPRODUCED
    if not reproduced:
        more.update(location=None, excerpt=None)
    return ProbeResult(
        outcome=verdict.outcome,
        message=verdict.message,
        severity=(verdict.severity or probe.severity) if reproduced else None,
        law=verdict.law,
        evidence=_evidence(measurements),
        **common,
        **more,
    )


def _evidence(measurements: Sequence[Measurement]) -> Evidence:
    """The weakest kind that the judged numbers rest on; extrapolated rows only add to measured ones."""
    kinds = {measurement.evidence for measurement in measurements}
    if Evidence.SIMULATED in kinds:
        return Evidence.SIMULATED
    return Evidence.MEASURED if Evidence.MEASURED in kinds else Evidence.EXTRAPOLATED


def _location(job: Job) -> Location | None:
    said = [m["location"] for m in job.messages if m["type"] == "location" and m["location"] is not None]
    return Location(said[0]["file"], int(said[0]["line"]), said[0]["function"]) if said else None


def _notes(job: Job) -> tuple[str, ...]:
    notes = [str(message["text"]) for message in job.messages if message["type"] == "note"]
    if job.end is not None and job.end.get("output_bytes"):
        notes.append(f"the target printed {job.end['output_bytes']:,} bytes, ignored")
    return tuple(notes)
