"""What goes wrong in a sweep: killed workers and drivers, a full disk, Ctrl-C, two at once, folders of others."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from auditkit.model.enums import DeviceChoice
from auditkit.sweep.driver import Event, Sweep
from auditkit.sweep.jobs import Order, ResultsFolder
from tests.sweep_helpers import (
    auditkit,
    begun_by,
    command,
    commit_of,
    environment,
    job,
    plan,
    processes_of,
    repository,
    results,
    wait_for,
)

pytestmark = pytest.mark.process


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return repository(tmp_path / "trainer", "v1", "v2", "v3", "v4")


def kill_next(folder: Path, key: str) -> None:
    os.kill(wait_for(lambda: begun_by(folder, key)), signal.SIGKILL)


@pytest.mark.parametrize("kills", [1, 2])
def test_a_killed_job_is_asked_again_at_most_so_often(tmp_path: Path, code: Path, kills: int) -> None:
    one, folder = job(code), tmp_path / "swept"
    seen: list[Event] = []

    def tell(event: Event) -> None:
        seen.append(event)
        if event.event == "submitted" and event.attempt <= kills:
            kill_next(folder, one.key)

    swept = Sweep([one], folder, tmp_path / "cache", attempts=2, tell=tell).run()
    again = [event.reason for event in seen if event.event == "again"]
    assert again == ["killed by SIGKILL, perhaps because memory ran out"]
    if kills == 1:
        assert (swept.done, swept.failed) == (1, 0)
        assert results(folder)[one.key]["run"]["summary"]["reproduced"] == 1
    else:
        failure = ResultsFolder(folder).read(one.key)
        assert failure is not None
        assert (swept.done, swept.failed) == (0, 1)
        assert failure.reason == f"no result: {again[0]} (the last of 2 attempts)"
        # A failed job runs again only with --again.
        assert Sweep([one], folder, tmp_path / "cache").run().failed == 1
        assert Sweep([one], folder, tmp_path / "cache", again=True).run().done == 1


def test_a_killed_driver_takes_its_jobs_along_and_the_next_one_goes_on(tmp_path: Path, code: Path) -> None:
    jobs = [job(code, f"trainer@{name}", commit_of(code, name)) for name in ("v1", "v2", "v3", "v4")]
    folder = tmp_path / "swept"
    words = ("sweep", "run", plan(tmp_path / "plan.jsonl", jobs), "--results", folder, "--jobs", 1)
    with subprocess.Popen(command(*words), env=environment(), stderr=subprocess.DEVNULL) as driver:
        wait_for(lambda: len(list(folder.glob("results/*.json"))) == 1)
        wait_for(lambda: processes_of(folder))
        driver.kill()
    wait_for(lambda: not processes_of(folder))
    first = {path: path.stat().st_mtime_ns for path in folder.glob("results/*.json")}
    assert 1 <= len(first) < 4
    second = auditkit(*words)
    assert second.returncode == 0, second.stderr
    assert results(folder).keys() == {one.key for one in jobs}
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert not list(folder.glob("**/*auditkit-tmp"))


@pytest.mark.parametrize(
    ("device", "cards"), [(DeviceChoice.AUTO, ""), (DeviceChoice.CPU, ""), (DeviceChoice.CUDA, "0")]
)
def test_a_job_sees_only_cards_that_it_has_asked_for(
    tmp_path: Path, code: Path, device: DeviceChoice, cards: str
) -> None:
    one = job(code, "trainer@v1", commit_of(code, "v1"), device=device)
    with ResultsFolder(tmp_path / "swept").held([one]):
        order = Order(str(tmp_path / "swept"), str(tmp_path / "cache"), one)
    script = "import os, sys; from auditkit.sweep import execution; execution.main(sys.argv[1])"
    words = [
        sys.executable,
        "-c",
        f"{script}; print(os.environ['CUDA_VISIBLE_DEVICES'])",
        msgspec.json.encode(order).decode(),
    ]
    variables = {**environment(), "CUDA_VISIBLE_DEVICES": "0"}
    # A job ends when its standard input does.
    with subprocess.Popen(words, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.read() == f"{cards}\n"


def test_ctrl_c_leaves_no_process_and_nothing_half(tmp_path: Path, code: Path) -> None:
    jobs = [job(code, f"trainer@{name}", commit_of(code, name)) for name in ("v1", "v2", "v3")]
    folder = tmp_path / "swept"
    words = ("sweep", "run", plan(tmp_path / "plan.jsonl", jobs), "--results", folder, "--jobs", 2)
    with subprocess.Popen(command(*words), env=environment(), stderr=subprocess.PIPE, text=True) as driver:
        wait_for(lambda: any(begun_by(folder, one.key) for one in jobs))
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=30)
    assert driver.returncode == 130
    assert said.splitlines()[-1] == "interrupted"
    # A job that was only just started ends because its standard input does.
    wait_for(lambda: not processes_of(folder), 5)
    assert auditkit(*words).returncode == 0


def test_two_sweeps_in_one_folder(tmp_path: Path, code: Path) -> None:
    folder = ResultsFolder(tmp_path / "swept")
    path = plan(tmp_path / "plan.jsonl", [job(code)])
    with folder.held([job(code)]):
        second = auditkit("sweep", "run", path, "--results", folder.path)
    assert second.returncode == 4
    assert "is locked by another auditkit" in second.stderr
    assert auditkit("sweep", "run", path, "--results", folder.path).returncode == 0


FULL = """
set -e
mount -t tmpfs -o size={small} tmpfs {folder}
set +e
{run}
echo "first $?"
mount -o remount,size=50m {folder}
{run}
echo "second $?"
ls {folder}/results
"""


def test_a_full_disk_ends_the_sweep_and_the_same_command_goes_on(tmp_path: Path, code: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed, which a small disk of one's own takes")
    jobs = [job(code, f"trainer@{name}", commit_of(code, name)) for name in ("v1", "v2")]
    folder = tmp_path / "swept"
    folder.mkdir()
    run = " ".join(command("sweep", "run", plan(tmp_path / "plan.jsonl", jobs), "--results", folder, "--jobs", 1))
    script = FULL.format(small="12k", folder=folder, run=run)
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    ended = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    if "first" not in ended.stdout:
        pytest.skip(f"no small disk can be mounted here: {ended.stderr.strip()}")
    assert ended.stdout.startswith("first 4\n"), ended.stderr
    assert "second 0\n" in ended.stdout, ended.stderr
    assert f"a job cannot write in {folder}: exit code 4" in ended.stderr
    assert "hint: free some space, then run the same command again" in ended.stderr
    for one in jobs:
        assert f"{one.key}.json" in ended.stdout


def test_a_folder_of_something_else(tmp_path: Path, code: Path) -> None:
    folder = tmp_path / "swept"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    before = sorted(folder.iterdir())
    ended = auditkit("sweep", "run", plan(tmp_path / "plan.jsonl", [job(code)]), "--results", folder)
    said = "is not the folder of a sweep, and it is not empty"
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    assert [path for path in sorted(folder.iterdir()) if path.name != ".auditkit"] == before


def test_what_is_gone_is_a_result_and_the_others_go_on(tmp_path: Path, code: Path) -> None:
    gone = [job(code, "rebased", "0" * 40), job(code, "moved", repository=str(tmp_path / "nowhere"))]
    jobs = [*gone, job(code)]
    swept = Sweep(jobs, tmp_path / "swept", tmp_path / "cache").run()
    assert (swept.done, swept.failed) == (1, 2)
    folder = ResultsFolder(tmp_path / "swept")
    failures = [folder.read(one.key) for one in gone]
    assert [one.reason.partition(" has ")[2] or one.reason for one in failures if one] == [
        f"no revision '{'0' * 40}'",
        f"no checkout: no such directory: {tmp_path / 'nowhere'}",
    ]


def test_a_job_that_takes_too_long_says_so(tmp_path: Path, code: Path) -> None:
    from auditkit.sweep.jobs import Resources

    one = job(code, resources=Resources(100, time_s=0.05))
    Sweep([one], tmp_path / "swept", tmp_path / "cache").run()
    failure = ResultsFolder(tmp_path / "swept").read(one.key)
    assert failure is not None
    assert failure.reason == "no result within 0.05 s"
