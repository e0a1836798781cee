"""Make one result of a job's messages: judged once, with the user's severity and a fingerprint."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from auditkit.model.enums import Contract, Evidence, Outcome, Reason, Takes
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.met_by import MetBy
from auditkit.model.runs.probe import Policy, ProbeInfo
from auditkit.model.runs.run import Environment, ProbeResult, TargetReading, fingerprint
from auditkit.model.runs.severity import Breaks, Occurs, meant, severity_of
from auditkit.model.runs.target import Target
from auditkit.probing.engine.judgement import Judgement, JudgingFailedError, judge
from auditkit.probing.engine.protocol import Failure, LoadedBy, Plan
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.session import Job, Session
from auditkit.probing.source.excerpts import cut_excerpt
from auditkit.probing.source.who_meets import Met, who_meets

_COUNTS_OF_A_GPU = ("syncs", "launches")


@dataclass(frozen=True)
class Asked:
    """One probe on one subject: a target, or the subject of a source probe.

    `ordinal` separates targets that call the same function; `recorded` has the subject's callers in a recorded run. A
    function that a user named (`is_named`) counts as called.
    """

    probe: ProbeInfo
    subject: str
    device: str
    policy: Policy
    ordinal: int = 0
    recorded: MetBy | None = None
    is_named: bool = False

    def unanswered(self, outcome: Outcome, reason: Reason | None, message: str, **seen: Any) -> ProbeResult:
        """Return a result with an outcome and a message; `seen` are further fields of it."""
        return ProbeResult(
            probe=self.probe.id,
            probe_version=self.probe.version,
            target=self.subject,
            outcome=outcome,
            message=message,
            fingerprint=fingerprint(self.probe.id, self.subject, self.ordinal),
            device=self.device,
            style=self.probe.style,
            reason=reason,
            **seen,
        )

    def judged(
        self,
        measurements: Sequence[Measurement],
        evidence: Evidence,
        location: Location | None,
        excerpt: Callable[[Location], CodeExcerpt | None],
        clips: bool = False,
        checkout: Path | None = None,
        **seen: Any,
    ) -> ProbeResult:
        """Return the judged result; only a finding has a severity and a place. A probe that fails to judge is an error.

        `clips` means that the target clips; callers are searched in `checkout`.
        """
        try:
            verdict = judge(self.probe, measurements, self.policy.thresholds_of(self.probe))
        except JudgingFailedError as error:
            seen["measurements"] = tuple(measurements)
            return self.unanswered(Outcome.ERROR, Reason.EXCEPTION, f"judging failed: {error}", **seen)
        if verdict.outcome is Outcome.REPRODUCED:
            seen |= self._weighed(verdict, clips, location, checkout)
            seen["location"], seen["excerpt"] = location, excerpt(location) if location is not None else None
        seen |= {"law": verdict.law, "evidence": evidence, "measurements": tuple(measurements)}
        return self.unanswered(verdict.outcome, None, verdict.message, **seen)

    def _weighed(
        self, verdict: Judgement, clips: bool, location: Location | None, checkout: Path | None
    ) -> dict[str, Any]:
        """Return a finding's severity and its reasons: by the user, else the verdict, else the probe's default."""
        users = self.policy.severities.get(self.probe.id)
        breaks = verdict.breaks or self.probe.breaks
        occurs = verdict.by_need() or ({"": self.probe.occurs} if self.probe.occurs else {})
        if verdict.severity is not None or not breaks or not occurs:
            return {"severity": users or verdict.severity or self.probe.severity}
        broken = meant(breaks, clips)
        met = Met(min(occurs.values(), key=list(Occurs).index))
        if checkout is not None and broken is not Breaks.UPKEEP:
            met = who_meets(checkout, occurs, broken, location, self.subject, self.recorded, self.is_named)
        severity = users or severity_of(broken, met.occurs)
        more = {"met_by": met.met_by, "lowered": met.lowered}
        return {"severity": severity, "breaks": broken, "occurs": met.occurs, **more}


@dataclass
class TargetRun:
    """One target's run: its last worker, its plan or why there is none, and one result per probe."""

    session: Session | None = None
    plan: Plan | None = None
    plan_failure: Failure | None = None
    results: list[ProbeResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def loaded_by(self) -> LoadedBy:
        return self.session.loaded_by if self.session is not None else LoadedBy()


def make_result(asked: Asked, job: Job | None, run: TargetRun, checkout: Path) -> ProbeResult:
    """Return the result of a probe on a target, whatever happened to its `job`."""
    why_not = _why_unasked(asked, run)
    if why_not is not None:
        return why_not
    if run.plan is None or job is None:
        failure = run.plan_failure or Failure(Reason.PROTOCOL, "the worker ended before this probe ran")
        return asked.unanswered(Outcome.ERROR, failure.reason, failure.describe())
    filled = run.plan.get("filled", {})
    notes = (*job.notes, *([f"called with {in_words(filled)}"] if filled else []), *run.loaded_by.describe())
    result = _answer(asked, job, checkout, notes, run.plan.get("clips", False))
    return result if result.evidence is None else replace(result, message=_with_field(result.message, run.plan))


def in_words(filled: Mapping[str, Any]) -> str:
    """Return `max_norm=1.0, a guess` for required arguments that auditkit gave a value."""
    listed = " and ".join(f"{name}={value}" for name, value in filled.items())
    return f"{listed}, a guess" if len(filled) == 1 else f"{listed}, guesses"


_ROLES_IN_WORDS = {"norm": "the norm", "zero": "planted zeros", "nan": "planted nans", "inf": "planted infs"}


def _with_field(message: str, plan: Plan) -> str:
    """Name the field that a message calls the norm or the count, if the result has several fields."""
    for role, words in _ROLES_IN_WORDS.items():
        path = plan["roles"].get(role, {"path": ""})["path"]
        if path and len(plan["fields"]) > 1:
            message = re.sub(rf"\b{words}\b", f"{words} ({path})", message, count=1)
    return message


def _why_unasked(asked: Asked, run: TargetRun) -> ProbeResult | None:
    """Return the result of a probe that no worker could run; None if a worker can."""
    contracts, devices = [known.value for known in asked.probe.contracts], asked.probe.devices
    if run.plan is not None and run.plan["contract"] not in contracts:
        text = f"the probe does not cover the contract {run.plan['contract']}"
        return asked.unanswered(Outcome.NOT_APPLICABLE, None, text)
    if asked.device not in devices:
        text = f"it can run only on {' or '.join(devices)}; tried on {asked.device}"
        return asked.unanswered(Outcome.UNAVAILABLE, Reason.NO_DEVICE, text)
    session = run.session
    if session is None:
        return None
    if asked.device == "cuda" and session.hello is not None and not session.has_cuda:
        text = "there is no CUDA device on this machine"
        return asked.unanswered(Outcome.UNAVAILABLE, Reason.NO_DEVICE, text)
    if session.failure is not None:
        failure = session.failure
        return asked.unanswered(Outcome.ERROR, failure.reason, failure.describe(), loaded=False)
    return None


def _answer(asked: Asked, job: Job, checkout: Path, notes: tuple[str, ...], clips: bool) -> ProbeResult:
    devices = {str(each.case["device"]) for each in job.measurements if "device" in each.case}
    asked = replace(asked, device=devices.pop()) if len(devices) == 1 else asked  # it may run elsewhere than planned
    measurements = _labelled(asked, job.measurements)

    def excerpt(location: Location) -> CodeExcerpt | None:
        return cut_excerpt(checkout, location)

    seen: dict[str, Any] = {"notes": notes, "duration_s": job.duration_s, "remembered": job.remembered}
    if job.failure is not None:
        refusal: tuple[Outcome, Reason | None, str] = (Outcome.ERROR, job.failure.reason, job.failure.message)
    elif job.refusal is not None:
        refusal = job.refusal
    elif not measurements:
        refusal = (Outcome.ERROR, Reason.PROTOCOL, "the probe measured nothing")
    else:
        return asked.judged(measurements, _evidence(measurements), job.location, excerpt, clips, checkout, **seen)
    shown = excerpt(job.location) if job.location is not None else None
    return asked.unanswered(*refusal, measurements=measurements, location=job.location, excerpt=shown, **seen)


def _labelled(asked: Asked, measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the measurements; GPU counts on plain CPU tensors are labelled as simulated."""
    if asked.device != "cpu" or asked.probe.instrument not in _COUNTS_OF_A_GPU:
        return tuple(measurements)
    return tuple(
        replace(each, evidence=Evidence.SIMULATED) if each.evidence is Evidence.MEASURED else each
        for each in measurements
    )


def _evidence(measurements: Sequence[Measurement]) -> Evidence:
    """Return the weakest kind of the judged numbers; extrapolated rows only add to measured ones."""
    kinds = {measurement.evidence for measurement in measurements}
    if Evidence.SIMULATED in kinds:
        return Evidence.SIMULATED
    return Evidence.MEASURED if Evidence.MEASURED in kinds else Evidence.EXTRAPOLATED


def read_target(target: Target, run: TargetRun, found: bool) -> TargetReading:
    """Return the target with the facts of its plan, if it has one."""
    how = run.loaded_by
    if run.plan is None:
        return TargetReading(target, found=found, rung=how.rung, placeholders=how.placeholders)
    plan = run.plan
    learnt = replace(
        target,
        contract=Contract(plan["contract"]),
        takes=Takes(plan["feed"]["takes"]),
        setup=plan["feed"]["setup"] or target.setup,
    )
    roles = {role: entry["path"] for role, entry in plan["roles"].items()}
    return TargetReading(learnt, roles, plan["answer_kind"], found, how.rung, how.placeholders, dict(plan))


def environment_of_runs(place: Environment, setting: Setting, runs: Sequence[TargetRun]) -> Environment:
    """Add to `place`, which describes a checkout, what the first worker with results reported of itself."""
    sessions = [run.session for run in runs if run.session is not None]
    session = next((each for each in sessions if each.hello is not None), None)
    hello = session.hello if session is not None else None
    devices = {result.device for run in runs for result in run.results if result.measurements}
    return replace(
        place,
        python=hello.python if hello is not None else "",
        torch=hello.torch if hello is not None else "",
        device="cuda" if "cuda" in devices else "simulated" if devices == {"simulated"} else "cpu",
        device_name=(session.device_name if session is not None else "") or _processor_name(),
        interpreter=setting.interpreter,
        platform=hello.platform if hello is not None else "",
    )


def _processor_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "CPU"
