"""From a YAML file or words to jobs: what is crossed with what, what a key hangs on, and what is said of mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.errors import BadInputError
from auditkit.sweep.jobs import line_of, read_plan
from auditkit.sweep.plan import checkout_of, jobs_of, read_plan_file
from tests.application import app
from tests.sweep_helpers import commit_of, job, repository
from tests.sweep_helpers import plan as write_jobs

pytestmark = pytest.mark.process
URL = "https://example.org/team/trainer"
SHA = "1" * 40
WHOLE = f"""
checkouts:
  - code@v1
  - url: {URL}.git
    name: remote
    revisions: [{SHA}, {"2" * 40}]
    requirements: [einops]
  - path: .
    name: here
torch: [2.10, "2.9"]
pythons: [3.10]
interpreters: [venv/bin/python]
devices: [cpu, cuda]
probes: [sync_in_loop, peak_memory_grows_with_params]
time_limit: 60
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return repository(tmp_path / "code", "v1", "v2")


def planned(folder: Path, text: str) -> list[Any]:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return list(jobs_of(read_plan_file(path)))


def test_the_published_sweep_is_a_plan() -> None:
    """docs/evidence/field.md is made of it."""
    assert len(list(jobs_of(read_plan_file(Path(__file__).parents[2] / "benchmarks" / "field.yaml")))) == 34


def test_every_list_is_crossed_with_the_checkouts(tmp_path: Path, code: Path) -> None:
    jobs = planned(tmp_path, WHOLE)
    cells = [(one.name, one.environment.torch, one.device.value) for one in jobs]
    assert cells == [
        *[("code", torch, device) for torch in ("", "2.10", "2.9") for device in ("cpu", "cuda")],
        *[
            (f"remote@{sha * 12}", torch, device)
            for sha in "12"
            for torch in ("", "2.10", "2.9")
            for device in ("cpu", "cuda")
        ],
        *[("here", torch, device) for torch in ("", "2.10", "2.9") for device in ("cpu", "cuda")],
    ]
    first, made = jobs[0], jobs[2]
    assert first.environment.interpreter == str(tmp_path / "venv/bin/python")
    assert (made.environment.python, made.environment.torch) == ("3.10", "2.10")
    assert first.revision == commit_of(code, "v1")
    assert {(one.resources.gpus, one.device.value) for one in jobs} == {(0, "cpu"), (1, "cuda")}
    assert jobs[6].environment.requirements == ()
    assert jobs[8].environment.requirements == ("einops",)
    assert (jobs[6].repository, jobs[-1].revision) == (f"{URL}.git", "")
    assert first.resources.time_s == 60
    assert first.probes == ("sync_in_loop", "peak_memory_grows_with_params")
    # That one holds 3,691 MB; a plan that does not ask it needs less.
    assert (
        first.resources.memory_mb
        > 3700
        > 2000
        > planned(tmp_path, "checkouts: [code]\nprobes: [sync_in_loop]")[0].resources.memory_mb
    )


def test_a_plan_is_read_as_it_was_written(tmp_path: Path, code: Path) -> None:
    jobs = planned(tmp_path, WHOLE)
    again = read_plan(write_jobs(tmp_path / "plan.jsonl", jobs))
    assert again == jobs
    assert list(map(line_of, again)) == list(map(line_of, jobs))
    assert len({one.key for one in jobs}) == len(jobs)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("checkouts: [code]\ntorchs: [2.9]", ":2:1: unknown key 'torchs' in plan\n"),
        ("checkouts:\n  - {path: code, url: x}", ":2:5: a checkout has a path or a url, and not both\n"),
        ("checkouts: [code]\ndevices: [gpu]", ":2:11: unknown device 'gpu'\n"),
    ],
)
def test_what_is_wrong_in_a_plan_is_said_with_its_place(tmp_path: Path, code: Path, text: str, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        planned(tmp_path, text)
    assert f"{tmp_path / 'sweep.yaml'}{said.replace('{folder}', str(tmp_path))}" in caught.value.message
    assert caught.value.hint


def test_the_command_prints_a_job_on_each_line(tmp_path: Path, code: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("checkouts: [code]\ntorch: [2.9, 2.10]\npythons: [3.12]\n", encoding="utf-8")
    ended = CliRunner().invoke(app, ["sweep", "plan", str(path)])
    assert ended.exit_code == 0, ended.output
    jobs = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [one["environment"] for one in jobs] == [{"python": "3.12", "torch": t} for t in ("2.9", "2.10")]


@pytest.mark.parametrize(
    ("text", "repository", "revisions"),
    [
        (f"{URL}@v1", URL, ("v1",)),
        (URL, URL, ()),
        ("git@example.org:team/trainer.git", "git@example.org:team/trainer.git", ()),
        ("git@example.org:team/trainer.git@main", "git@example.org:team/trainer.git", ("main",)),
        ("ssh://git@example.org/team/trainer", "ssh://git@example.org/team/trainer", ()),
    ],
)
def test_an_address_may_hold_an_at_sign(text: str, repository: str, revisions: tuple[str, ...]) -> None:
    found = checkout_of(text)
    assert (found.repository, found.revisions, found.name) == (repository, revisions, "trainer")


def test_a_plan_that_somebody_changed(tmp_path: Path, code: Path) -> None:
    path = write_jobs(tmp_path / "plan.jsonl", [job(code)])
    line = path.read_text()
    for changed, said in (
        ("{}\n", ":1:1: this is not a job: Object missing required field `key`"),
        (line.replace('"device":"cpu",', ""), ":1:1: this is not a job: Object missing required field `device`"),
        ("", " has no job"),
    ):
        path.write_text(changed)
        with pytest.raises(BadInputError) as caught:
            read_plan(path)
        assert str(path) + said in caught.value.message


def test_results_of_another_version_are_of_other_jobs(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = job(code).key
    monkeypatch.setattr("auditkit.sweep.jobs.__version__", "0.0.1")
    assert job(code).key != now
