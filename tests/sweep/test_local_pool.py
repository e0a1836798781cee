"""The pool of this machine: how many jobs at a time, within which memory, and that nothing of them is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from auditkit.sweep.engines.engine import Ended, Task
from auditkit.sweep.engines.local import LocalPool
from auditkit.sweep.jobs import Resources
from tests.probing_helpers import is_alive
from tests.sweep_helpers import wait_for

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the memory of this machine in MB."""
    return lambda memory_mb: monkeypatch.setattr("auditkit.sweep.engines.local._machine_memory_mb", lambda: memory_mb)


def pool(folder: Path, jobs: int = 4) -> LocalPool:
    return LocalPool(folder, jobs)


def task(key: str, code: str, memory_mb: int = 100, gpus: int = 0) -> Task:
    return Task(key, (sys.executable, "-c", code), Resources(memory_mb, gpus))


def ends(engine: LocalPool, count: int) -> list[Ended]:
    found: list[Ended] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += engine.finished(0.5)
    engine.close()
    return found


COUNTED = """
import os, pathlib, time
here = pathlib.Path({folder!r})
mine = here / f"now-{{os.getpid()}}"
mine.touch()
(here / f"saw-{{os.getpid()}}").write_text(str(len(list(here.glob("now-*")))))
time.sleep(0.3)
mine.unlink()
"""


@pytest.mark.parametrize(("jobs", "memory_mb", "most"), [(4, 1000, 4), (2, 1000, 2), (4, 250, 2), (4, 100, 1)])
def test_no_more_run_at_a_time_than_jobs_and_memory_allow(
    folder: Path, memory: Callable[[int], None], jobs: int, memory_mb: int, most: int
) -> None:
    memory(memory_mb)
    engine = pool(folder, jobs)
    for number in range(6):
        engine.submit(task(f"job-{number}", COUNTED.format(folder=str(folder))))
    found = ends(engine, 6)
    assert sorted(one.key for one in found) == [f"job-{number}" for number in range(6)]
    assert {one.exit_code for one in found} == {0}
    assert max(int(path.read_text()) for path in folder.glob("saw-*")) == most


def test_what_needs_more_memory_than_there_is_never_starts(folder: Path, memory: Callable[[int], None]) -> None:
    memory(1000)
    engine = pool(folder)
    engine.submit(task("large", f"open({str(folder / 'ran')!r}, 'w')", memory_mb=1001))
    (ended,) = ends(engine, 1)
    assert (ended.reason, ended.again) == ("it needs 1,001 MB of memory, and this machine has 1,000 MB", False)
    assert not (folder / "ran").exists()


def test_each_job_that_asks_for_a_card_has_one_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    engine = pool(folder)
    show = (
        "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(0.3); raise SystemExit(7)"
    )
    for number in range(3):
        engine.submit(task(f"job-{number}", show, gpus=1))
    engine.submit(task("none", show))
    said = {one.key: one.reason for one in ends(engine, 4)}
    assert sorted(said[f"job-{number}"] for number in range(2)) == ["exit code 7: 0", "exit code 7: 1"]
    assert said["none"] == "exit code 7"


STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({out!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""


def test_closing_ends_a_job_that_will_not_end_with_what_it_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditkit.sweep.engines.engine._GRACE_S", 0.5)
    engine, out = pool(folder, 1), folder / "pids"
    engine.submit(task("stubborn", STUBBORN.format(out=str(out))))
    engine.submit(task("waiting", "raise SystemExit"))
    wait_for(lambda: out.exists() and out.read_text())
    engine.close()
    for pid in map(int, out.read_text().split()):
        assert not is_alive(pid)
