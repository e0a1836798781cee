"""Pipes, files with holes and devices among a checkout's files: nothing waits for them, and no memory is filled."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project_files import ROOT

pytestmark = pytest.mark.process

NAMES = (
    "LICENSE", ".gitmodules", "auditkit.yaml", "pyproject.toml", "setup.py", "requirements.txt", "README.md", "big.py",
    "src/__init__.py", "notes.ipynb", "conftest.py", "settings.yaml", "tests/test_x.py", "copied/LICENSE",
    "copied/setup.py",
)  # fmt: skip
COLLECTOR = """
def norm(parameters):
    total = 0.0
    for each in parameters:
        if each.grad is not None:
            total += each.grad.norm(2).item() ** 2
    return total**0.5
"""
MOST_MEMORY_BYTES = 3 << 30


def holes(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(10 << 30)


@pytest.mark.parametrize("make", [os.mkfifo, holes])
def test_a_checkout_of_them_is_audited(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """By reading alone; its own configuration, where it is too large to be one, is named and refused."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        make(tmp_path / name)
    (tmp_path / "norms.py").write_text(COLLECTOR)
    if make is holes:
        assert "auditkit.yaml has more than 1,000,000 bytes" in audit(tmp_path)
        (tmp_path / "auditkit.yaml").unlink()
    told = audit(tmp_path)
    assert "sync_in_loop: 1 line waits for the device inside a loop" in told


def audit(checkout: Path) -> str:
    """What an audit with little memory prints; 300 s are a pipe's that is waited for."""
    words = ("audit", str(checkout), "--probe=sync_in_loop", "--no-tickets", "--fix-time=0", "--in-place")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "auditkit", *words],
        capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES)),
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr
