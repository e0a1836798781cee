"""What floods, fills, multiplies or will not end: the run ends all the same, and nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditkit.model.enums import CageChoice
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.checkouts.checkout import OpenCheckout, parse_checkout
from auditkit.probing.checkouts.copies import open_copy
from auditkit.probing.hosts import cage
from tests.cage.engines import NONE, engine, engine_name, set_engine
from tests.probing_helpers import OVERFLOW, TARGETS, by_probe, run_probes

__all__ = ["engine", "engine_name"]

pytestmark = pytest.mark.process


@pytest.fixture(params=[NONE, *cage.ENGINES])
def any_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CageChoice:
    return set_engine(request.param, monkeypatch)


@contextlib.contextmanager
def opened(tmp_path: Path) -> Iterator[OpenCheckout]:
    checkout = tmp_path / "bombs"
    checkout.mkdir()
    shutil.copy(TARGETS / "escapes" / "bombs.py", checkout)
    with open_copy(parse_checkout(checkout), sys.executable) as found:
        yield found


def ask(folder: Path, function: str, choice: CageChoice, limit_s: float = 60.0) -> ProbeResult:
    run = run_probes(folder, f"bombs:{function}", [OVERFLOW], cage=choice, time_limit_s=limit_s)
    return by_probe(run)[OVERFLOW]


def grows(path: Path) -> bool:
    before = path.stat().st_size
    time.sleep(0.3)
    return path.stat().st_size > before


def test_a_daemon_ends_with_the_run(tmp_path: Path, any_engine: CageChoice) -> None:
    with opened(tmp_path) as found:
        assert ask(found.path, "leave_a_daemon", any_engine).outcome == "not_reproduced"
        assert not grows(found.path / "alive")


def test_a_daemon_outlives_a_plain_process(tmp_path: Path) -> None:
    """The control of the test above."""
    shutil.copy(TARGETS / "escapes" / "bombs.py", tmp_path)
    subprocess.run([sys.executable, "bombs.py", "leave_a_daemon"], cwd=tmp_path, check=True)
    assert grows(tmp_path / "alive")
    os.kill(int((tmp_path / "alive").read_text().split()[0]), signal.SIGKILL)
    assert not grows(tmp_path / "alive")


def test_a_flood_is_counted_and_not_kept(tmp_path: Path, any_engine: CageChoice) -> None:
    with opened(tmp_path) as found:
        result = ask(found.path, "flood", any_engine)
    assert result.outcome == "not_reproduced"
    assert len(str(result.to_json())) < 20_000


def test_what_sleeps_for_ever_is_ended(tmp_path: Path, any_engine: CageChoice) -> None:
    began = time.monotonic()
    with opened(tmp_path) as found:
        result = ask(found.path, "sleep", any_engine, limit_s=2.0)
    assert (result.outcome, result.reason) == ("error", "timeout")
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_processes_are_limited_and_ended(tmp_path: Path, engine: CageChoice) -> None:
    with opened(tmp_path) as found:
        ask(found.path, "start_processes", CageChoice.OFF)
        assert (found.path / "started").read_text() == "2000", "the control"
        (found.path / "started").unlink()
        ask(found.path, "start_processes", engine)
        started = int((found.path / "started").read_text())
    if any("number of processes" in each for each in cage.engine_of(engine).lacks):
        pytest.skip(f"{started} were started: root has no limit here")
    assert 100 < started <= cage._MOST_PROCESSES
