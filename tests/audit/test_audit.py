"""The audit as a function: exit codes as a table, ticket numbers, ordinals, and a second run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit, exit_code, specimen_dir
from auditkit.config.config import Config
from auditkit.errors import ExitCode
from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.run import Environment, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.run.measurement import Progress
from auditkit.probing.run.run_options import RunOptions

pytestmark = pytest.mark.process

ENVIRONMENT = Environment("here", "", False, "3.11", "2.13", "cpu", "CPU")


def _result(outcome: Outcome, severity: Severity | None = None, loaded: bool = True) -> ProbeResult:
    return ProbeResult("p", 1, "m:f", outcome, "text", "p/1/m:f", severity=severity, loaded=loaded)


FOUND = _result(Outcome.REPRODUCED, Severity.P2)
SOUND = _result(Outcome.NOT_REPRODUCED)
BROKEN = _result(Outcome.ERROR)
UNLOADED = _result(Outcome.ERROR, loaded=False)
STRANGE = _result(Outcome.NOT_APPLICABLE)


@pytest.mark.parametrize(
    ("results", "fail_on", "code"),
    [
        ((SOUND,), Severity.P4, ExitCode.OK),
        ((FOUND, SOUND), Severity.P4, ExitCode.FINDINGS),
        ((FOUND, SOUND), Severity.P1, ExitCode.OK),
        ((FOUND, BROKEN, UNLOADED), Severity.P4, ExitCode.FINDINGS),
        ((SOUND, BROKEN), Severity.P4, ExitCode.NOTHING_MEASURED),
        ((SOUND, UNLOADED), Severity.P4, ExitCode.TARGET_NOT_LOADED),
        ((STRANGE,), Severity.P4, ExitCode.NOTHING_MEASURED),
        ((), Severity.P4, ExitCode.NOTHING_MEASURED),
    ],
)
def test_exit_codes(results: tuple[ProbeResult, ...], fail_on: Severity, code: ExitCode):
    """Findings first, then what could not be loaded, then errors; an absence alone is never 0."""
    assert exit_code(Run("id", ENVIRONMENT, results), fail_on) is code


HERE = RunOptions(python=sys.executable)


def _request(tickets: Path | None, **more: object) -> AuditRequest:
    probes = ("norm_overflows_on_finite_grads", "launches_grow_with_tensors")
    target = Target("gradmon.defective:squared_sum_norm", name="norm")
    request = AuditRequest(str(specimen_dir()), (HERE,), (target,), probes, tickets=tickets)
    return replace(request, **more)


def test_tickets_are_numbered_worst_first(tmp_path: Path):
    """P3 before P4 whatever the order of the probes, by the configuration's severities."""
    tickets = tmp_path / "tickets"
    here = replace(HERE, config=Config(severity={"launches_grow_with_tensors": Severity.P3}))
    heard: list[ProbeResult] = []
    first = audit(_request(tickets, batch=7, arms=(here,)), Progress(finished=heard.append))
    assert [(r.probe, str(r.severity), r.ticket, r.ticket_action) for r in first.results] == [
        ("norm_overflows_on_finite_grads", "P4", "B7-PT-02", "created"),
        ("launches_grow_with_tensors", "P3", "B7-PT-01", "created"),
    ]
    assert {(one.fingerprint, one.severity) for one in heard} == {
        (one.fingerprint, one.severity) for one in first.results
    }
    (ticket,) = tickets.rglob("B7-PT-01*.md")
    assert "\nseverity: P3\n" in ticket.read_text(encoding="utf-8")
