"""Ctrl-C: everything that was started ends, nothing is left lying, and the shell is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.project_files import our_environment

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
    git = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
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


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition: Callable[[], object], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see every process")
def test_an_interrupted_audit_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    """Exit code 130, no worker, no worktree, no ticket, no trace in the repository."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    status = ["git", "-C", str(repository), "worktree", "list"]
    before = subprocess.run(status, check=True, capture_output=True).stdout
    words = ["audit", f"{repository}@HEAD", "--target", "stats:grad_norm", "--takes", "parameters"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "auditkit", *words, "--tickets", str(tmp_path / "tickets")],
        env={**our_environment(), "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The worker's own child is the one that hangs in the target.
    wait_until(lambda: len(workers_below(process.pid)) > 1, 180)
    assert any(scratch.iterdir())
    workers = workers_below(process.pid)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")
    wait_until(lambda: not any(map(is_running, workers)), 60)
    assert os.listdir(scratch) == []
    assert subprocess.run(status, check=True, capture_output=True).stdout == before
    assert not (tmp_path / "tickets").exists()
