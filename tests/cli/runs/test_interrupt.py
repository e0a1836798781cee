"""Ctrl-C: everything that was started ends, nothing is left lying, and the shell is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.probing_helpers import OVERFLOW, is_alive
from tests.project_files import our_environment
from tests.sweep_helpers import wait_for
from tests.verify_helpers import git

pytestmark = pytest.mark.process

HANGING = """
import time
import torch


def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    time.sleep(600)
    return torch.stack([g.norm() for g in grads]).norm().item()
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository whose one collector takes ten minutes."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "stats.py").write_text(HANGING, encoding="utf-8")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        git(folder, *words)
    return folder


def workers_below(process: int) -> list[int]:
    """The processes that run a worker and descend from `process`."""
    parents: dict[int, int] = {}
    workers = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"worker/entry.py" in (entry / "cmdline").read_bytes():
                workers.add(int(entry.name))
        except OSError:
            continue  # it ended meanwhile
    return [worker for worker in workers if process in _ancestors(worker, parents)]


def _ancestors(process: int, parents: dict[int, int]) -> Iterator[int]:
    while process in parents:
        process = parents[process]
        yield process


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see every process")
def test_an_interrupted_audit_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    """Exit code 130, no worker, no worktree, no ticket, no trace in the repository."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    status = ["git", "-C", str(repository), "worktree", "list"]
    before = subprocess.run(status, check=True, capture_output=True).stdout
    words = ["audit", f"{repository}@HEAD", "--target", "stats:grad_norm", "--takes", "parameters"]
    words += ["--probe", OVERFLOW]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "auditkit", *words, "--tickets", str(tmp_path / "tickets")],
        env={**our_environment(), "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The worker's own child is the one that hangs in the target.
    wait_for(lambda: len(workers_below(process.pid)) > 1, 180)
    assert any(scratch.iterdir())
    workers = workers_below(process.pid)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")
    wait_for(lambda: not any(map(is_alive, workers)), 60)
    assert os.listdir(scratch) == []
    assert subprocess.run(status, check=True, capture_output=True).stdout == before
    assert not (tmp_path / "tickets").exists()
