"""The worker and the probes in Python 3.10, where AUDITKIT_OLDEST_PYTHON names one that has torch."""

from __future__ import annotations

import json
import os

import pytest

from tests.project_files import ROOT, auditkit

PYTHON = os.environ.get("AUDITKIT_OLDEST_PYTHON", "")
PROBES = (
    "norm_overflows_on_finite_grads",
    "fails_on_sparse_grads",
    "syncs_grow_with_tensors",
    "launches_grow_with_tensors",
    "memory_is_retained_after_call",
    "graph_breaks_under_compile",
)


@pytest.mark.process
@pytest.mark.skipif(not PYTHON, reason="AUDITKIT_OLDEST_PYTHON names no interpreter")
@pytest.mark.parametrize("target", ["squared-sum-norm", "sound-health-async"])
def test_the_oldest_interpreter_gives_the_same_answers(target: str) -> None:
    specimen = ROOT / "probes" / "specimens" / "gradient_monitoring"
    words = ("probe", "run", *PROBES, "--checkout", specimen, "--target", target, "--json")
    old = json.loads(auditkit(*words, "--python", PYTHON).stdout)
    new = json.loads(auditkit(*words).stdout)
    assert old["run"]["python"].startswith("3.10.")
    outcomes = [{(each["probe"], each["device"]): each["outcome"] for each in run["results"]} for run in (old, new)]
    assert outcomes[0] == outcomes[1]
    assert "error" not in outcomes[0].values()
