"""What a probe's `judge` gets, and what becomes of what it returns."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.probing.engine.catalog import load_catalog, read_probe
from auditkit.probing.engine.judgement import JudgingFailedError, judge

pytestmark = pytest.mark.process

NORMS = (
    Measurement("norm", math.inf, "norm", {"dtype": "float32", "elements": 4}),
    Measurement("norm", math.nan, "norm", {}, Evidence.SIMULATED),
    Measurement("kind", "inf", "text"),
)


def probe_that(folder: Path, judge_body: str) -> ProbeInfo:
    """A probe file of somebody else's, whose `judge` does what `judge_body` says."""
    ours = Path(load_catalog()["norm_underflows_to_zero"].path).read_text("utf-8")
    head = ours.partition("def judge(")[0].replace("norm_underflows_to_zero", "theirs")
    body = "".join(f"    {line}\n" for line in judge_body.splitlines())
    path = folder / "theirs.py"
    path.write_text(f"{head}def judge(measurements, policy):\n{body}", encoding="utf-8")
    return read_probe(path)


def test_a_judge_gets_the_measurements_and_the_policy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Infinities are numbers; what it prints does not mix with a document on stdout."""
    body = """import math
first, second, text = measurements
assert math.isinf(first.value) and first.case == {"dtype": "float32", "elements": 4}
assert math.isnan(second.value) and (second.evidence, text.value) == ("simulated", "inf")
print("a note")
return {"outcome": "reproduced", "message": "x", "severity": "P0", "law": "n"} if policy["limit"] else None
"""
    verdict = judge(probe_that(tmp_path, body), NORMS, {"limit": 1})
    assert (verdict.outcome, verdict.severity, verdict.law) == (Outcome.REPRODUCED, Severity.P0, "n")
    assert capfd.readouterr() == ("", "a note\n")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise KeyError('norm')", "KeyError: 'norm'"),
        ("return None", "no verdict, but None"),
        ("return {'outcome': 'passed', 'message': 'x'}", "Invalid enum value 'passed'"),
        ("return {'outcome': 'reproduced'}", "missing required field `message`"),
        ("return {'outcome': 'reproduced', 'message': 'x', 'severity': 'high'}", "Invalid enum value 'high'"),
    ],
)
def test_what_goes_wrong_in_a_judge_is_said(tmp_path: Path, body: str, told: str) -> None:
    """It costs this one verdict, and is never a pass."""
    with pytest.raises(JudgingFailedError) as failed:
        judge(probe_that(tmp_path, body), NORMS, {})
    assert told in str(failed.value)
