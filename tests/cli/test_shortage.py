"""A machine that has no process or no memory left: auditkit says so and ends with exit code 3, whoever needed it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.errors import ExitCode
from tests.project_files import our_environment

COLLECTOR = """def grad_norm(parameters):
    return sum(p.grad.pow(2).sum() for p in parameters if p.grad is not None) ** 0.5
"""
_USER = 61_234
_CAPABILITIES = "+dac_override,+dac_read_search"
_FEW_PROCESSES = [
    "setpriv", f"--reuid={_USER}", "--clear-groups", f"--inh-caps={_CAPABILITIES}", f"--ambient-caps={_CAPABILITIES}",
    "prlimit",
]  # fmt: skip


@pytest.mark.process
@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv") or not shutil.which("prlimit"),
    reason="the limit counts all processes of a user: only root can become a user that has no others",
)
@pytest.mark.parametrize("most", [1, 2, 3])  # git cannot start; then the worker; then the worker's own child
def test_without_processes_nothing_is_measured(tmp_path: Path, most: int) -> None:
    (tmp_path / "stats.py").write_text(COLLECTOR)
    os.chmod(tmp_path, 0o777)
    words = ["probe", "run", "norm_overflows_on_finite_grads", "--checkout", tmp_path, "--target", "stats:grad_norm"]
    command = [*_FEW_PROCESSES, f"--nproc={most}", sys.executable, "-P", "-m", "auditkit", *words]
    environment = our_environment() | {"HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.stderr.splitlines()[0] == "error: the machine cannot start another process: auditkit cannot go on"
    assert ended.returncode == ExitCode.NOTHING_MEASURED
    assert "the output cannot be written" not in ended.stderr


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("prlimit"), reason="prlimit limits the memory of the command alone")
@pytest.mark.parametrize("megabytes", [30, 200, 400])  # auditkit itself; torch's libraries; torch's first threads
def test_without_memory_nothing_is_measured(tmp_path: Path, megabytes: int) -> None:
    (tmp_path / "stats.py").write_text(COLLECTOR)
    words = ["audit", tmp_path, "--probe", "norm_overflows_on_finite_grads"]
    command = ["prlimit", f"--as={megabytes * 1_000_000}", sys.executable, "-P", "-m", "auditkit", *words]
    environment = our_environment() | {"HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.stderr.splitlines()[0] == "error: the machine has no memory left: auditkit cannot go on"
    assert ended.returncode == ExitCode.NOTHING_MEASURED
    assert "the output cannot be written" not in ended.stderr
