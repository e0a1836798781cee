"""How a sweep goes, as a log and as JSON."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from auditkit.cli.sweep import expected_end, line_of
from auditkit.sweep.driver import Event
from tests.sweep_helpers import auditkit, job, plan, repository


def event(kind: str, key: str = "", done: int = 0, failed: int = 0, running: int = 0, **more: object) -> Event:
    return Event(kind, done, failed, running, 150, done + failed, 60.0, key, **more)  # type: ignore[arg-type]


def test_a_log_has_a_line_for_each_end_with_when_all_will_be_over() -> None:
    late = event("again", "job-7", done=2, failed=1, reason="killed by SIGKILL", node="n3")
    end = time.strftime("%H:%M", time.localtime(time.time() + 147 * 20))
    assert line_of(late) == f"[3/150] runs again  job-7 on n3: killed by SIGKILL (expected end {end})"
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
