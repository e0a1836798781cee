"""Severity: the user's override, then the probe's judgement, then its default."""

from __future__ import annotations

from auditkit.model.enums import Outcome, Severity
from auditkit.rules.severity import judge_severity
from tests.filing_helpers import make_finding


def test_the_override_of_the_probe_comes_first() -> None:
    result = make_finding().result
    overrides = {result.probe: Severity.P4, "other": Severity.P2}
    assert judge_severity(Severity.P1, overrides, result) is Severity.P4
    assert judge_severity(Severity.P1, {"other": Severity.P2}, result) is Severity.P0
    assert judge_severity(Severity.P1, {}, make_finding(severity=None).result) is Severity.P1


def test_only_a_finding_has_a_severity() -> None:
    for outcome in Outcome:
        if outcome is not Outcome.REPRODUCED:
            assert judge_severity(Severity.P1, {}, make_finding(outcome=outcome).result) is None
