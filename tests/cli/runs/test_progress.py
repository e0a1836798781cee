"""What a job says on its way: findings at once, a live line on a terminal, plain lines in a pipe, never on stdout."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from auditkit.cli.runs.progress import LiveLine
from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
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


def read_until(descriptor: int, wanted: str, limit_s: float = 120.0) -> str:
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


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_findings_are_said_before_the_audit_ends(command: list[str], tmp_path: Path, is_terminal: bool) -> None:
    """While the second probe still waits: what the first reproduced. stdout has the document alone."""
    ours, theirs = pty.openpty() if is_terminal else os.pipe()
    environment = {**our_environment(), "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        said = read_until(ours, FINDING)
        if is_terminal:
            said += read_until(ours, "1/2  1 reproduced  waits_for_go on grad_norm")
        assert process.poll() is None
        (tmp_path / "go").touch()
        drain(ours)
        assert process.stdout is not None
        shown = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 1
    assert shown.startswith(f"{tmp_path}: torch ")
    assert FINDING not in shown
    if is_terminal:
        lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said))
        assert max(map(len, lines)) <= 80
    else:
        assert said == f"asking stats:grad_norm (1 of 1)\n{FINDING}stats:grad_norm\n"


def result(probe: str, severity: str, target: str) -> ProbeResult:
    place = Location("stats.py", 7, "norm")
    given = Severity(severity)
    return ProbeResult(probe, 1, target, Outcome.REPRODUCED, "text", f"{probe}/1/{target}", given, location=place)


@pytest.mark.parametrize("width", [80, 50, 30])
def test_a_narrow_terminal_cuts_names_and_no_counts(width: int) -> None:
    """Each line fits, what is done and found stands first; a minor finding is counted, and one place named once."""
    line = LiveLine(8)
    target = "trainer.telemetry:GradientHealthMonitor.compute_gradient_health_async"
    line.targets_known([Target(target)] * 12, 36)
    for finding in (result(CLAIM, "P1", target), result(CLAIM, "P1", "m:other"), result("minor_claim", "P4", target)):
        line.finished(finding)
    line.asks(f"norm_overflows_on_finite_grads on {target}")
    page = Console(width=width, file=io.StringIO())
    with page.capture() as shown:
        page.print(line.shown())
    first, last = shown.get().splitlines()
    assert first.startswith(f"P1  {CLAIM}"[: width - 1])
    assert last.startswith("0:00  3/432  3 reproduced  ")
    assert max(len(first), len(last)) <= width
