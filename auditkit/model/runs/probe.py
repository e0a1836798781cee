"""A probe's definition, as its file's literal `PROBE` states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from auditkit.model.codec import Record
from auditkit.model.enums import Contract, Severity
from auditkit.model.runs.severity import Occurs

_NO_PATH = PurePath()

CATEGORIES = {
    "Correctness bug": "correctness bug",
    "Race condition / concurrency": "race condition",
    "Memory leak / resource issue": "memory",
    "Performance bottleneck": "performance",
    "Numerical stability": "numerical stability",
    "torch.compile compatibility": "torch.compile",
    "Dead code / unwired functionality": "dead code",
    "API design / contract violation": "api contract",
    "Test coverage gap": "test coverage",
    "Documentation / naming": "documentation",
    "Defensive programming violation": "defensive programming",
    "Legacy code policy violation": "legacy code",
}
"""The twelve categories of probes, each with its name in tickets."""


DEVICES = ("cuda", "simulated", "cpu")
"""Where a probe can run: a real device, the simulated device, plain CPU tensors."""

SCOPES = ("target", "source")
"""What a probe is about: one collector that it calls, or the checkout's source, of which it runs nothing."""


@dataclass(frozen=True)
class ProbeInfo(
    Record,
    keys="id version title scope style? contracts categories agent severity lifecycle statement_does? "
    "instrument motivation method limits remediation remediation_code measurements=units policy",
):
    """What a probe checks, for which contracts, on which devices, and the texts of its tickets.

    `severity` is that of a finding for which `judge` returns no other. It follows from `breaks` and `occurs` (see
    model/runs/severity.py), where the probe has them.
    `statement_does` are the words of a ticket for the statement that the probe blames: `line 7 waits for the device`.
    `style` marks probes of maintainability, which an audit runs only with --style. `memory_mb` is the most memory of a
    worker that runs it, torch included.
    """

    id: str
    version: int
    title: str
    severity: Severity
    contracts: tuple[Contract, ...] = ()
    categories: tuple[str, ...] = ()
    agent: str = ""
    lifecycle: str = ""
    instrument: str = ""
    motivation: str = ""
    method: str = ""
    limits: str = ""
    remediation: str = ""
    remediation_code: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, float] = field(default_factory=dict)
    path: PurePath = _NO_PATH
    devices: tuple[str, ...] = DEVICES
    scope: str = "target"
    breaks: str = ""
    occurs: Occurs | None = None
    style: bool = False
    statement_does: str = ""
    memory_mb: int = 900


@dataclass(frozen=True)
class Policy:
    """What the user decided instead of the probes: thresholds by their names, severities by probe."""

    thresholds: Mapping[str, Any] = field(default_factory=dict)
    severities: Mapping[str, Severity] = field(default_factory=dict)

    def thresholds_of(self, probe: ProbeInfo) -> dict[str, Any]:
        """The numbers that the probe judges by."""
        return {name: self.thresholds.get(name, default) for name, default in probe.policy.items()}
