"""What a user decides in the place of a probe."""

from __future__ import annotations

from dataclasses import replace

from auditkit.model.enums import Severity
from auditkit.model.runs.probe import Policy
from tests.filing_helpers import make_finding


def test_the_users_severity_comes_first_then_the_probes_judgement_then_its_default() -> None:
    probe = replace(make_finding().probe, severity=Severity.P1)
    assert Policy(severities={probe.id: Severity.P4}).severity_of(probe, Severity.P0) is Severity.P4
    assert Policy(severities={"other": Severity.P2}).severity_of(probe, Severity.P0) is Severity.P0
    assert Policy().severity_of(probe, None) is Severity.P1


def test_a_probe_is_judged_by_its_own_thresholds_alone() -> None:
    probe = replace(make_finding().probe, policy={"share": 0.5, "slope": 1.0})
    assert Policy({"slope": 5, "another": 7}).thresholds_of(probe) == {"share": 0.5, "slope": 5}
