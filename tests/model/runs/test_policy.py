"""What a user decides in the place of a probe."""

from __future__ import annotations

from dataclasses import replace

from auditkit.model.runs.probe import Policy
from tests.filing_helpers import make_finding


def test_a_probe_is_judged_by_its_own_thresholds_alone() -> None:
    probe = replace(make_finding().probe, policy={"share": 0.5, "slope": 1.0})
    assert Policy({"slope": 5, "another": 7}).thresholds_of(probe) == {"share": 0.5, "slope": 5}
