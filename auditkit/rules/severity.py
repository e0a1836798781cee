"""How bad a finding is: the user's word first, then the probe's."""

from __future__ import annotations

from collections.abc import Mapping

from auditkit.model.enums import Outcome, Severity
from auditkit.model.run import ProbeResult


def judge_severity(default: Severity, overrides: Mapping[str, Severity], result: ProbeResult) -> Severity | None:
    """The severity of `result`: the override for its probe, else what the probe judged, else `default`.

    None where nothing was reproduced: only a finding has a severity.
    """
    if result.outcome is not Outcome.REPRODUCED:
        return None
    return overrides.get(result.probe) or result.severity or default
