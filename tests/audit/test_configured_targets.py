"""auditkit.yaml's targets and discovery together: an audit checks both, unless `discover: false` says otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit, exit_code
from auditkit.config.config import Config, read_config
from auditkit.errors import ExitCode
from auditkit.model.enums import Outcome
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.probing.run.found_candidates import configured_lines
from auditkit.probing.run.run_options import RunOptions
from tests.probing_helpers import OVERFLOW

pytestmark = pytest.mark.process

KNOWN = """
import torch

def known(parameters):
    return torch.stack([p.grad.double().norm() for p in parameters]).norm()
"""
NEW = """
import torch

def fresh(parameters):
    return torch.stack([(p.grad ** 2).sum() for p in parameters]).sum().sqrt()
"""


def audited(folder: Path, config: Config) -> Run:
    (folder / "known.py").write_text(KNOWN)
    (folder / "fresh.py").write_text(NEW)
    arms = (RunOptions(python=sys.executable, config=config),)
    return audit(AuditRequest(str(folder), arms=arms, probes=(OVERFLOW,)))


def outcomes(run: Run) -> dict[str, Outcome]:
    return {result.target: result.outcome for result in run.results}


def test_a_new_file_is_run_beside_the_configured_targets(tmp_path: Path) -> None:
    """A defect in a file that auditkit.yaml does not mention is a finding, and the exit code says so."""
    run = audited(tmp_path, Config(targets=(Target("known:known", name="known"),)))
    assert outcomes(run) == {"known:known": Outcome.NOT_REPRODUCED, "fresh:fresh": Outcome.REPRODUCED}
    assert exit_code(run) is ExitCode.FINDINGS
    assert {each.target.call: each.found for each in run.targets} == {"known:known": False, "fresh:fresh": True}
    assert [each.call for each in run.candidates] == ["fresh:fresh"]


def test_discovery_that_is_switched_off_says_so(tmp_path: Path) -> None:
    """With `discover: false` only the configured targets run, and the first lines of the report say it."""
    file = tmp_path / "auditkit.yaml"
    file.write_text("discover: false\ntargets:\n  - call: known:known\n")
    run = audited(tmp_path, read_config(file))
    assert outcomes(run) == {"known:known": Outcome.NOT_REPRODUCED}
    assert run.discovery_off
    assert Run.from_json(run.to_json()).discovery_off
    (line,) = configured_lines(run)
    assert "discover: false" in line
    assert "1 target " in line
