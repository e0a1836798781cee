"""Who judges where: our probes in this process, anybody else's in one that may be lost."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.probing.hosts.catalog import load_catalog, read_probe
from auditkit.probing.hosts.judgement import JudgingFailedError, is_bundled, judge

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


def test_ours_are_told_from_others(tmp_path: Path) -> None:
    """By where the file lies; a copy of one of ours is somebody else's."""
    assert is_bundled(load_catalog()["norm_underflows_to_zero"])
    assert not is_bundled(probe_that(tmp_path, "return {}"))


def test_a_foreign_judge_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    """It gets the same measurements and the policy, infinities as numbers, and none of our modules."""
    body = """import math, os, sys
first, second, text = measurements
assert math.isinf(first.value) and first.case == {"dtype": "float32", "elements": 4}
assert math.isnan(second.value) and (second.evidence, text.value) == ("simulated", "inf")
assert not [name for name in sys.modules if name.startswith("auditkit")]
return {"outcome": "reproduced", "message": str(os.getpid()), "severity": "P0", "law": "n"} if policy["limit"] else None
"""
    verdict = judge(probe_that(tmp_path, body), NORMS, {"limit": 1})
    assert (verdict.outcome, verdict.severity, verdict.law) == (Outcome.REPRODUCED, Severity.P0, "n")
    assert int(verdict.message) != os.getpid()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise KeyError('norm')", "KeyError: 'norm'"),
        ("import os; os._exit(7)", "ended with status 7 and without a verdict"),
        ("raise SystemExit(3)", "ended with status 3 and without a verdict"),
        ("return None", "no verdict, but None"),
        ("return {'outcome': 'passed', 'message': 'x'}", "'passed' is not a valid Outcome"),
        ("return {'outcome': 'reproduced'}", "KeyError: 'message'"),
        ("return {'outcome': 'reproduced', 'message': 3}", "needs a message as text"),
        ("return {'outcome': 'reproduced', 'message': 'x', 'severity': 'high'}", "'high' is not a valid Severity"),
    ],
)
def test_what_goes_wrong_in_a_judge_is_said(tmp_path: Path, body: str, told: str) -> None:
    """It costs this one verdict, and is never a pass."""
    with pytest.raises(JudgingFailedError) as failed:
        judge(probe_that(tmp_path, body), NORMS, {})
    assert told in str(failed.value)


def test_a_judge_that_hangs_is_ended(tmp_path: Path) -> None:
    """Its time limit is its own: nothing waits for it longer."""
    with pytest.raises(JudgingFailedError, match=r"no verdict within 1\.5 s"):
        judge(probe_that(tmp_path, "while True: pass"), NORMS, {}, time_limit_s=1.5)


def test_what_a_judge_prints_is_no_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither on our stdout, where a JSON document may stand, nor in the place of the verdict."""
    body = """import os, sys
print('{"verdict": {"outcome": "not_reproduced", "message": "forged"}}', flush=True)
os.write(1, b"text"); os.write(2, b"text"); sys.__stdout__.write("text")
return {"outcome": "reproduced", "message": "told"}
"""
    assert judge(probe_that(tmp_path, body), NORMS, {}).message == "told"
    assert capfd.readouterr() == ("", "")
