"""What a job says on its way: findings at once, a live line on a terminal, plain lines in a pipe, never on stdout."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.project_files import ROOT, our_environment

pytestmark = pytest.mark.process

CLAIM = "syncs_grow_with_tensors"
COLLECTOR = """
import torch


def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return sum(float(g.norm()) ** 2 for g in grads) ** 0.5
"""
WAIT = """
    import os, time
    while not os.path.exists("{go}"):
        time.sleep(0.05)
"""
FINDING = f"P2  {CLAIM}  "


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """An audit of one target by two probes, the second of which waits for the file `go`."""
    (tmp_path / "stats.py").write_text(COLLECTOR, encoding="utf-8")
    probe = (ROOT / "probes" / f"{CLAIM}.py").read_text("utf-8").replace(f'"{CLAIM}"', '"waits_for_go"')
    line = "def measure(ctx):\n"
    probe = probe.replace(line, line + WAIT.format(go=tmp_path / "go"))
    (tmp_path / "waits_for_go.py").write_text(probe, encoding="utf-8")
    options = ["--target", "stats:grad_norm", "--contract", "grad_norm", "--takes", "parameters"]
    return [
        sys.executable,
        "-P",
        "-m",
        "auditkit",
        "audit",
        str(tmp_path),
        *options,
        "--probe",
        CLAIM,
        "--probe",
        str(tmp_path / "waits_for_go.py"),
    ]


def read_until(descriptor: int, wanted: str, limit_s: float = 300.0) -> str:
    """What is written until `wanted` is in it."""
    text, end = "", time.monotonic() + limit_s
    while wanted not in text:
        ready = select.select([descriptor], [], [], max(end - time.monotonic(), 0))[0]
        assert ready, f"{wanted!r} was not said in {limit_s} s: {text[-300:]!r}"
        text += os.read(descriptor, 65536).decode()
    return text


def drain(descriptor: int) -> None:
    """Read until the last writer has closed it, which on a terminal is an error."""
    with contextlib.suppress(OSError):
        while os.read(descriptor, 65536):
            pass


def test_findings_are_said_before_the_audit_ends(command: list[str], tmp_path: Path) -> None:
    """While the second probe still waits, a terminal counts findings; test_wheel.py has the lines of a pipe."""
    ours, theirs = pty.openpty()
    environment = {**our_environment(), "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        read_until(ours, "1/2  1 reproduced")
        assert process.poll() is None
        (tmp_path / "go").touch()
        drain(ours)
        assert process.stdout is not None
        shown = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 1
    assert f"\n{tmp_path}: torch " in shown.replace("\r", "")
    assert FINDING not in shown
