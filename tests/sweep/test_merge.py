"""One matrix of what jobs said: the same bytes from the same plan, nothing twice, nothing that is silent left out."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from auditkit.model.enums import Outcome
from auditkit.sweep.driver import Sweep
from auditkit.sweep.jobs import EnvironmentSpec, Job, Result, ResultsFolder
from auditkit.sweep.merge import markdown_table, merge
from tests.reports.exported_runs import RUNS
from tests.sweep_helpers import auditkit, commit_of, job, plan, repository

pytestmark = pytest.mark.process


def folder_with(path: Path, jobs: list[Job], results: list[Result]) -> ResultsFolder:
    folder = ResultsFolder(path)
    with folder.held(jobs):
        for result in results:
            folder.put(result)
    return folder


def columns(code: Path, *versions: str) -> list[Job]:
    return [job(code, environment=EnvironmentSpec(torch=version), revision="a" * 40) for version in versions]


def test_the_same_plan_gives_the_same_files(tmp_path: Path) -> None:
    """Whatever order the answers came in, and whoever gave them."""
    code = repository(tmp_path / "trainer", "v1", "v2")
    jobs = [job(code, f"trainer@{name}", commit_of(code, name)) for name in ("v1", "v2")]
    jobs.append(job(code, "gone", "0" * 40))
    path = plan(tmp_path / "plan.jsonl", jobs)
    Sweep(jobs[::-1], tmp_path / "one", tmp_path / "cache", at_a_time=1).run()
    Sweep(jobs, tmp_path / "one", tmp_path / "cache").run()
    assert auditkit("sweep", "run", path, "--results", tmp_path / "two", "--jobs", 3).returncode == 3
    for name in ("one", "two"):
        ended = auditkit("sweep", "merge", tmp_path / name, "--output", tmp_path / f"{name}-merged")
        assert ended.returncode == 1, ended.stderr
    files = sorted(path.relative_to(tmp_path / "one-merged") for path in (tmp_path / "one-merged").rglob("*.*"))
    same = [file for file in files if file.name != "jobs.csv" and ".auditkit" not in file.parts]
    assert {"matrix.json", "matrix.html", "matrix.md", "B1-PT-01.md"} <= {file.name for file in same}
    for file in same:
        assert (tmp_path / "one-merged" / file).read_bytes() == (tmp_path / "two-merged" / file).read_bytes(), file
    document = json.loads((tmp_path / "one-merged" / "matrix.json").read_bytes())
    assert document["summary"]["reproduced"] == 2
    assert [one["target"] for one in document["results"]] == [
        "trainer@v1/train.norms:total_norm", "trainer@v2/train.norms:total_norm", "gone",
    ]  # fmt: skip
    with open(tmp_path / "two-merged" / "jobs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["answered", "answered", "failed"]
    assert all(float(row["seconds"]) > 0 for row in rows)


def test_a_question_without_an_answer_in_one_column_is_an_error_with_its_reason(tmp_path: Path) -> None:
    """Known controls: the finding that both have, and the column that was never asked."""
    jobs = columns(tmp_path, "2.9", "2.10", "2.11")
    run = RUNS["findings"]
    answers = [
        Result(jobs[0], run.to_json()),
        Result(jobs[1], reason="no environment: torch==2.10.*: no wheel"),
    ]
    merged = merge(folder_with(tmp_path / "swept", jobs, answers), jobs)
    found = [one for one in merged.run.results if one.outcome is Outcome.REPRODUCED and not one.is_of_source]
    assert len(found) == sum(one.outcome is Outcome.REPRODUCED and not one.is_of_source for one in run.results) > 0
    for one in found:
        own, made, never = one.arms
        assert own.outcome is Outcome.REPRODUCED
        assert (made.outcome, made.message) == (Outcome.ERROR, "no environment: torch==2.10.*: no wheel")
        assert (never.outcome, never.message) == (Outcome.ERROR, "not run: it is planned, and no job ran it")
        assert one.arms_differ
    table = markdown_table(merged)
    assert "| no result (1) | no result (2) |" in table
    assert "\n1. no environment: torch==2.10." in table


def test_a_changed_answer_is_named(tmp_path: Path) -> None:
    (one,) = columns(tmp_path, "2.9")
    folder = folder_with(tmp_path / "swept", [one], [])
    folder.answer_path(one.key).write_text("{")
    ended = auditkit("sweep", "merge", folder.path)
    assert (ended.returncode, str(folder.answer_path(one.key)) in ended.stderr) == (2, True)
    assert auditkit("sweep", "merge", tmp_path).returncode == 2
