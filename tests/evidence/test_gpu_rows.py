"""The GPU's evidence row by row: what was measured stays, whatever happens to a row, to the process, or to the time."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_rows
from benchmarks.gpu_machine import Machine
from benchmarks.gpu_rows import Clock, Row, StillClock, run_part

# Python 3.12 warns of forks beside threads, such as torch's; no lock is held here.
pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")]


class TenSecondsARow(Clock):
    """Every row takes ten seconds, in no time."""

    passed_s = 0.0

    def now_s(self) -> float:
        return self.passed_s

    def has_answer(self, pipe: Connection, limit_s: float) -> bool:
        self.passed_s += 10.0
        return super().has_answer(pipe, 60.0)


def own_process() -> dict[str, Any]:
    return {"pid": os.getpid()}


def fails() -> dict[str, Any]:
    raise ValueError("no such\n  gradient")


def crashes() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGUSR1)
    return {}


def sleeps() -> dict[str, Any]:
    time.sleep(2)
    return {}


def sleeps_deaf() -> dict[str, Any]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return sleeps()


def measured(path: Path, *rows: Row, limit_s: float = 480.0, clock: Clock | None = None) -> dict[str, Any]:
    """The document as it is read from its file afterwards."""
    run_part(rows, path / "part.json", {"part": "p"}, limit_s, clock or Clock())
    document = json.loads((path / "part.json").read_text("utf-8"))
    assert [*document["rows"], *document["missing"]] == [row.name for row in rows]
    return document


def test_a_row_that_raises_or_crashes_is_a_row_and_the_part_goes_on(tmp_path: Path) -> None:
    names = {"first": own_process, "raises": fails, "crashes": crashes, "last": own_process}
    document = measured(tmp_path, *(Row(name, measure) for name, measure in names.items()))
    assert (document["part"], document["ended"], document["missing"]) == ("p", "whole", [])
    assert document["rows"]["raises"]["error"] == "ValueError: no such gradient"
    assert document["rows"]["crashes"]["error"] == "its process ended with SIGUSR1"
    assert document["rows"]["last"]["pid"] != document["rows"]["first"]["pid"] != os.getpid()


def test_a_row_that_may_spoil_its_process_has_it_alone(tmp_path: Path) -> None:
    rows = [Row("a", own_process), Row("b", own_process), Row("c", own_process, alone=True), Row("d", own_process)]
    a, b, c, d = (row["pid"] for row in measured(tmp_path, *rows)["rows"].values())
    assert a == b
    assert len({b, c, d}) == 3


def test_a_row_has_its_time_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hears the signal keeps its process, one that does not is killed, and the next row runs."""
    monkeypatch.setattr(gpu_rows, "_GRACE_S", 0.3)
    rows = [Row("slow", sleeps, 0.2), Row("deaf", sleeps_deaf, 0.2), Row("next", own_process)]
    found = measured(tmp_path, *rows)["rows"]
    assert found["slow"]["error"] == "StoppedError: its time was up"
    assert found["deaf"]["error"] == "stopped after 0 s; it heard no signal and was killed"
    assert "pid" in found["next"]


def test_a_part_ends_with_its_time_and_says_what_is_missing(tmp_path: Path) -> None:
    rows = [Row(str(n), own_process) for n in range(5)]
    document = measured(tmp_path, *rows, limit_s=25.0, clock=TenSecondsARow())
    assert (document["ended"], document["missing"]) == ("out of time", ["3", "4"])
    assert [row["seconds"] for row in document["rows"].values()] == [10.0] * 3


def test_in_preflight_no_limit_holds(tmp_path: Path) -> None:
    """Else a busy machine would leave rows out, and what is left out fails on the day."""
    document = measured(tmp_path, Row("a", lambda: time.sleep(0.2) or {}, 0.01), limit_s=0.01, clock=StillClock())
    assert (document["ended"], document["rows"]["a"]) == ("whole", {"seconds": 0.0})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_part_that_is_cut_off_leaves_what_it_had(number: signal.Signals, tmp_path: Path) -> None:
    path, rows = tmp_path / "part.json", [Row("first", own_process), Row("second", sleeps), Row("third", own_process)]
    process = multiprocessing.get_context("fork").Process(target=run_part, args=(rows, path, {}, 480.0, Clock()))
    process.start()
    document: dict[str, Any] = {"ended": ""}
    end = time.monotonic() + 30
    while document["ended"] != "cut off in second" and time.monotonic() < end:
        time.sleep(0.02)
        document = json.loads(path.read_text("utf-8")) if path.exists() else document
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(30)
    assert process.exitcode == (-number if number == signal.SIGKILL else 0)
    document = json.loads(path.read_text("utf-8"))
    assert (document["ended"], document["missing"]) == ("cut off in second", ["second", "third"])
    assert "pid" in document["rows"]["first"]


def test_a_command_whose_time_is_up_has_said_what_it_said(tmp_path: Path) -> None:
    code = "print('begun', flush=True); import time; time.sleep(30)"

    def command() -> dict[str, Any]:
        ended = Machine(is_preflight=True).run_module(["timeit", "-n1", "-r1", code], tmp_path)
        return {"code": ended.code, "said": ended.stdout}

    found = measured(tmp_path, Row("command", command, 1.5))["rows"]["command"]
    assert (found["code"], found["said"]) == (None, "begun\n")
