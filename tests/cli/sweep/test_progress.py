"""How a sweep goes, as a table, as a log, and as JSON."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest
from rich.console import Console

from auditkit.cli.sweep.progress import Board, expected_end, line_of
from auditkit.workflows.sweep.driver import Event
from tests.sweep_helpers import auditkit, job, plan, repository


def event(kind: str, key: str = "", done: int = 0, failed: int = 0, running: int = 0, **more: object) -> Event:
    return Event(kind, done, failed, running, 150, done + failed, 60.0, key, **more)  # type: ignore[arg-type]


def shown(board: Board) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    console.print(board.shown())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_the_table_has_the_counts_what_runs_and_what_failed_last() -> None:
    board = Board()
    for number in range(14):
        board.take(event("running", f"job-{number}", running=number + 1))
    board.take(event("answered", "job-0", done=1, running=13))
    board.take(event("failed", "job-1", done=1, failed=1, running=12, reason="no \x1b[31menvironment"))
    head, counts, *lines = shown(board)
    assert head.split() == ["done", "running", "failed", "waiting", "planned", "expected", "end"]
    assert counts.split()[:5] == ["1", "12", "1", "136", "150"]
    assert [line.strip() for line in lines[:12]] == [f"0:00 job-{number}" for number in range(2, 14)]
    assert lines[12].startswith("failed job-1: no ")
    assert "\x1b" not in lines[12]


def test_a_log_has_a_line_for_each_end_with_when_all_will_be_over() -> None:
    late = event("again", "job-7", done=2, failed=1, reason="killed by SIGKILL", node="n3")
    end = time.strftime("%H:%M", time.localtime(time.time() + 147 * 20))
    assert line_of(late) == f"[3/150] is asked again  job-7 on n3: killed by SIGKILL (expected end {end})"
    assert expected_end(event("begun")) == ""
    assert expected_end(event("answered", done=150)) == ""


@pytest.mark.process
def test_events_are_lines_of_json_and_a_log_is_for_pipes(tmp_path: Path) -> None:
    code = repository(tmp_path / "trainer")
    jobs = [job(code), job(code, "gone", "0" * 40)]
    path = plan(tmp_path / "plan.jsonl", jobs)
    ended = auditkit("sweep", "run", path, "--results", tmp_path / "one", "--json", "--jobs", 1)
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.returncode, ended.stderr) == (3, "")
    assert [one["event"] for one in events if one["event"] != "running"] == [
        "begun", "submitted", "submitted", "answered", "failed", "ended",
    ]  # fmt: skip
    assert (events[-1]["done"], events[-1]["failed"], events[-1]["planned"]) == (1, 1, 2)
    ended = auditkit("sweep", "run", path, "--results", tmp_path / "two", "--jobs", 1)
    first, second, last = ended.stderr.splitlines()
    assert first.startswith(f"[1/2] answered  {jobs[0].key} (expected end ")
    assert second.startswith(f"[2/2] failed  {jobs[1].key}: ")
    assert last == f"2 jobs: 1 answered, 1 without an answer; auditkit sweep merge {tmp_path / 'two'}"
    assert ended.stdout == ""
