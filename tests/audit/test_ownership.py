"""Whose defect a finding is: torch's where torch's own function has it as badly, else the checkout's."""

from __future__ import annotations

import sys

import pytest

from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.probe import Policy
from auditkit.model.runs.run import Environment, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.run.measurement import Progress, Questions, measure
from tests.probing_helpers import OVERFLOW, SYNCS, TARGETS, UNDERFLOW

pytestmark = pytest.mark.process
FOLDER = TARGETS / "wrappers"
PROBES = select(load_catalog(), [OVERFLOW, UNDERFLOW, SYNCS])
THIN, STEPS = "wrappers:Trainer.clip", "wrappers:in_two_steps"
WAITS, SCALED, BESIDE = "wrappers:waits", "wrappers:scaled_up", "wrappers:by_hand"
TORCHS, INSTALLED = "torch.nn.utils.get_total_norm", "torch.nn.utils:get_total_norm"
PLACE = Environment("", "", False, "", "", "", "")


@pytest.fixture(scope="module")
def told() -> list[ProbeResult]:
    """What was heard of the run while it went on."""
    return []


@pytest.fixture(scope="module")
def run(told: list[ProbeResult]) -> Run:
    setting = Setting(FOLDER, sys.executable, (FOLDER,), policy=Policy(severities={UNDERFLOW: Severity.P2}))
    targets = [Target(call) for call in (THIN, STEPS, WAITS, SCALED, BESIDE, INSTALLED)]
    return measure(Questions(targets, PROBES, PLACE), setting, Progress(finished=told.append))


def owners(run: Run, target: str) -> dict[str, str]:
    """The findings about a target with their owners, without torch's version."""
    found = (one for one in run.results if one.target == target and one.outcome is Outcome.REPRODUCED)
    return {one.probe: one.owner.partition(": ")[2] for one in found}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (THIN, dict.fromkeys((OVERFLOW, UNDERFLOW), TORCHS)),
        (STEPS, dict.fromkeys((OVERFLOW, UNDERFLOW), TORCHS)),
        (WAITS, {**dict.fromkeys((OVERFLOW, UNDERFLOW), TORCHS), SYNCS: ""}),
        (BESIDE, {OVERFLOW: "", UNDERFLOW: ""}),
    ],
    ids=["a method some calls above", "both halves", "a wait per tensor", "its own beside torch's"],
)
def test_a_wrapper_is_judged_on_what_it_adds(run: Run, target: str, expected: dict[str, str]) -> None:
    assert owners(run, target) == expected


def test_what_breaks_sooner_than_torchs_own_is_not_torchs(run: Run) -> None:
    """At the very line that calls torch: it hands over a thousand times the gradients."""
    assert owners(run, SCALED)[OVERFLOW] == ""


def test_what_is_torchs_is_p4_and_says_so(run: Run) -> None:
    """With torch's version. The user's word on a probe's severity stays the last."""
    found = {one.probe: one for one in run.results if one.target == THIN}
    version = run.environment.torch.partition("+")[0]
    assert found[OVERFLOW].owner == f"torch {version}: {TORCHS}"
    assert found[OVERFLOW].message.endswith(f"; get_total_norm of torch {version} does the same")
    assert (found[OVERFLOW].severity, found[UNDERFLOW].severity) == (Severity.P4, Severity.P2)
