"""One invocation: its environment, its revision, and every requested probe with its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.enums import Evidence, Outcome, Reason, Severity
from auditkit.model.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.probe import ProbeInfo
from auditkit.model.target import Target

SCHEMA_VERSION = 1
FINGERPRINT_SCHEME = 1
BUNDLED = "bundled specimen"
"""What stands for the checkout where auditkit's own specimen was audited."""


def fingerprint(probe_id: str, target: str, ordinal: int = 0) -> str:
    """What makes two findings the same one: probe, scheme and target; never a line, never a message."""
    suffix = f"#{ordinal}" if ordinal else ""
    return f"{probe_id}/{FINGERPRINT_SCHEME}/{target}{suffix}"


@dataclass(frozen=True)
class Environment:
    """Where a run was made: two runs are comparable only where these agree.

    `checkout` is the path as the user named it, `revision` the full commit or "" outside git.
    """

    checkout: str
    revision: str
    dirty: bool
    python: str
    torch: str
    device: str
    device_name: str
    interpreter: str = ""
    platform: str = ""
    auditkit: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "checkout": self.checkout,
            "revision": self.revision,
            "dirty": self.dirty,
            "python": self.python,
            "torch": self.torch,
            "device": self.device,
            "device_name": self.device_name,
            "interpreter": self.interpreter,
            "platform": self.platform,
            "auditkit": self.auditkit,
        }


@dataclass(frozen=True)
class ProbeResult:
    """What one probe said of one target.

    `device` is where this probe's numbers come from (`cpu`, `cuda`, `simulated`); `law` the fitted
    growth law ("3n+1"), where the probe fits one; `reason` why there is no answer, where there is none;
    `loaded` whether the target's interpreter, torch and module could be loaded at all.
    """

    probe: str
    probe_version: int
    target: str
    outcome: Outcome
    message: str
    fingerprint: str
    severity: Severity | None = None
    evidence: Evidence | None = None
    reason: Reason | None = None
    device: str = ""
    law: str = ""
    location: Location | None = None
    excerpt: CodeExcerpt | None = None
    measurements: tuple[Measurement, ...] = ()
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0
    ticket: str | None = None
    ticket_action: str = ""
    loaded: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "probe": self.probe,
            "probe_version": self.probe_version,
            "target": self.target,
            "outcome": self.outcome.value,
            "severity": self.severity.value if self.severity else None,
            "evidence": self.evidence.value if self.evidence else None,
            "reason": self.reason.value if self.reason else None,
            "device": self.device,
            "message": self.message,
            "law": self.law,
            "fingerprint": self.fingerprint,
            "ticket": self.ticket,
            "ticket_action": self.ticket_action,
            "location": self.location.to_json() if self.location else None,
            "measurements": [measurement.to_json() for measurement in self.measurements],
            "notes": list(self.notes),
            "duration_s": round(self.duration_s, 3),
        }


@dataclass(frozen=True)
class Finding:
    """A reproduced result with everything a ticket says about it.

    `source` is the checkout's directory without a revision: where the question can be asked again.
    """

    probe: ProbeInfo
    result: ProbeResult
    environment: Environment
    run_id: str
    target: Target | None = None
    source: str = ""


@dataclass(frozen=True)
class TargetReading:
    """A target as it was fed and read: what was configured, and what trying it showed.

    `roles` maps `norm`, `zero`, `nan`, `inf` to the field of the answer that behaves so; `found` says
    that reading the checkout's source found the target.
    """

    target: Target
    roles: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    found: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.target.name,
            **self.target.to_json(),
            "answer": self.answer,
            "roles": dict(self.roles),
            "found": self.found,
        }


@dataclass(frozen=True)
class Run:
    """The whole of one invocation, as `--json` prints it."""

    id: str
    environment: Environment
    results: tuple[ProbeResult, ...]
    targets: tuple[TargetReading, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "run": {"id": self.id, **self.environment.to_json()},
            "targets": [reading.to_json() for reading in self.targets],
            "results": [result.to_json() for result in self.results],
            "summary": count_outcomes(self.results),
            "notes": list(self.notes),
        }


def count_outcomes(results: Iterable[ProbeResult]) -> dict[str, int]:
    """How many results there are of each outcome, every outcome named."""
    counts = Counter(result.outcome for result in results)
    return {outcome.value: counts[outcome] for outcome in Outcome}
