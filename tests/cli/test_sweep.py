"""How a sweep goes, as a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.cli.sweep import log
from auditkit.sweep.driver import Event
from tests.sweep_helpers import auditkit, job, plan, repository


def test_a_log_has_a_line_for_each_end(capsys: pytest.CaptureFixture[str]) -> None:
    log(Event("again", 150, 2, 1, "job-7", reason="killed by SIGKILL", node="n3"))
    assert capsys.readouterr().err == "[3/150] runs again  job-7 on n3: killed by SIGKILL\n"


@pytest.mark.process
def test_the_log_goes_to_stderr(tmp_path: Path) -> None:
    code = repository(tmp_path / "trainer")
    jobs = [job(code), job(code, "gone", "0" * 40)]
    path = plan(tmp_path / "plan.jsonl", jobs)
    ended = auditkit("sweep", "run", path, "--results", tmp_path / "two", "--jobs", 1)
    first, second, last = ended.stderr.splitlines()
    assert first.startswith(f"[1/2] done  {jobs[0].key}")
    assert second.startswith(f"[2/2] failed  {jobs[1].key}: ")
    assert last == f"2 jobs: 1 done, 1 without a result; auditkit sweep merge {tmp_path / 'two'}"
    assert ended.stdout == ""
