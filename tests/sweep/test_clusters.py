"""A sweep on a real Ray cluster and on a real Slurm, of two nodes on this machine: the same answers, whatever is lost.

Each engine's errors without a cluster are in test_engines.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditkit.errors import BadInputError
from auditkit.sweep.driver import Event, Sweep, open_engine
from auditkit.sweep.engines.engine import Ended, Engine, Task, sweep_name
from auditkit.sweep.jobs import EnvironmentSpec, Job, Resources, ResultsFolder
from auditkit.sweep.merge import merge, write_merged
from tests.clusters import RayNodes, SlurmNodes, processes_with, ray_nodes, slurm_nodes
from tests.project_files import ROOT
from tests.sweep_helpers import (
    begun_by,
    command,
    commit_of,
    environment,
    job,
    plan,
    processes_of,
    repository,
    wait_for,
)

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module", params=["ray", "slurm"])
def nodes(request: pytest.FixtureRequest) -> Iterator[RayNodes | SlurmNodes]:
    with ray_nodes() if request.param == "ray" else slurm_nodes() as found:
        yield found


ON_RAY = pytest.mark.parametrize("nodes", ["ray"], indirect=True)
ON_SLURM = pytest.mark.parametrize("nodes", ["slurm"], indirect=True)


@contextlib.contextmanager
def opened(nodes: RayNodes | SlurmNodes, folder: Path) -> Iterator[Engine]:
    (folder / "logs").mkdir(exist_ok=True)
    engine = open_engine(nodes.name, folder, None, nodes.options)
    try:
        yield engine
    finally:
        engine.close()


def ends(engine: Engine, count: int) -> dict[str, Ended]:
    found: dict[str, Ended] = {}

    def all_ended() -> bool:
        found.update({one.key: one for one in engine.finished(0.5)})
        return len(found) == count

    wait_for(all_ended, 40)
    return found


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_how_commands_end(nodes: RayNodes | SlurmNodes, tmp_path: Path) -> None:
    small = Resources(100)
    tasks = {
        "well": Task("well", ("true",), small),
        "failed": Task("failed", ("sh", "-c", "echo no such weight >&2; exit 3"), small),
        "killed": Task("killed", ("sh", "-c", "kill -9 $$"), small),
        "missing": Task("missing", ("no-such-command",), small),
        "card": Task("card", ("sh", "-c", 'test "$CUDA_VISIBLE_DEVICES" = 0'), Resources(100, gpus=1)),
        "large": Task("large", ("true",), Resources(900_000)),
        "cards": Task("cards", ("true",), Resources(100, gpus=9)),
    }
    with opened(nodes, tmp_path) as engine:
        for task in tasks.values():
            engine.submit(task)
        found = ends(engine, len(tasks))
    assert {key: one.exit_code for key, one in found.items()} == {
        "well": 0, "failed": 3, "killed": -9, "missing": None, "card": 0, "large": None, "cards": None,
    }  # fmt: skip
    assert {key for key, one in found.items() if not one.again} == {"large", "cards"}
    assert found["failed"].reason == "exit code 3: no such weight"
    assert found["killed"].reason == "killed by SIGKILL, perhaps because memory ran out"
    assert found["missing"].reason == "it could not be started: No such file or directory"
    refused = ("no node of the Ray cluster has ", "Slurm rejects it: ")
    assert all(found[key].reason.startswith(refused) for key in ("large", "cards"))
    assert all(found[key].node for key in ("well", "failed", "killed"))
    assert not (tmp_path / "logs" / "well.log").exists()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    """Five quick ones: two of the source alone, two that measure, and one whose revision is gone."""
    place = tmp_path_factory.mktemp("checkouts")
    code = repository(place / "trainer", "v1", "v2")
    shutil.copytree(ROOT / "tests/targets/partial", place / "partial")
    measured: dict[str, Any] = {
        "probes": ("norm_overflows_on_finite_grads",),
        "environment": EnvironmentSpec(interpreter=sys.executable),
        "resources": Resources(800),
    }
    return [
        job(code, "measured", **measured),
        Job("", **{**_fields(job(code, "partial", **measured)), "repository": str(place / "partial"), "revision": ""}),
        *(job(code, f"trainer@{name}", commit_of(code, name)) for name in ("v1", "v2")),
        job(code, "rebased", "0" * 40),
    ]


def _fields(one: Job) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__ if name != "key"}


def matrix(folder: Path, jobs: list[Job]) -> dict[str, bytes]:
    """All that is written of a sweep and holds no times."""
    results = ResultsFolder(folder)
    out = folder.parent / f"{folder.name}-merged"
    write_merged(merge(results, jobs), out)
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file() and path.name != "jobs.csv"}


@pytest.fixture(scope="module")
def expected(jobs: list[Job], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the pool of this machine answers."""
    place = tmp_path_factory.mktemp("local")
    Sweep(jobs, place / "swept", place / "cache").run()
    return matrix(place / "swept", jobs)


def test_a_node_that_dies_midway_changes_nothing_in_the_matrix(
    nodes: RayNodes | SlurmNodes, jobs: list[Job], expected: dict[str, bytes], tmp_path: Path
) -> None:
    folder, seen = tmp_path / "swept", list[Event]()

    def lose_a_node() -> None:
        """As soon as all that can run does, each job at its very beginning."""
        stopped: dict[str, int] = {}

        def all_begun() -> bool:
            for one in jobs[: nodes.running_at_once]:
                process = begun_by(folder, one.key)
                if process and one.key not in stopped:
                    stopped[one.key] = process
                    os.kill(process, signal.SIGSTOP)
            return len(stopped) == nodes.running_at_once

        wait_for(all_begun, 120)
        nodes.lose_a_node()
        for process in stopped.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)

    fault = threading.Thread(target=lose_a_node)
    fault.start()
    sweep = Sweep(jobs, folder, tmp_path / "cache", nodes.name, attempts=2, options=nodes.options, tell=seen.append)
    swept = sweep.run()
    fault.join()
    nodes.add_a_node()
    lost = [event for event in seen if event.event == "again"]
    assert [event.reason for event in lost] == ["its node is lost"] * (nodes.running_at_once // 2)
    assert (swept.done, swept.failed) == (4, 1)
    assert sorted(event.key for event in seen if event.event == "answered") == sorted(one.key for one in jobs[:-1])
    assert processes_of(folder) == []
    assert matrix(folder, jobs) == expected
    assert {"matrix.json", "matrix.html", "matrix.md"} <= expected.keys()


def test_a_killed_driver_is_followed_by_one_that_asks_nothing_twice(
    nodes: RayNodes | SlurmNodes, jobs: list[Job], expected: dict[str, bytes], tmp_path: Path
) -> None:
    """Ray ends the tasks of a driver that is gone; Slurm's go on, and the next driver takes them over."""
    folder = tmp_path / "swept"
    options = [word for name, value in nodes.options.items() for word in ("--option", f"{name}={value}")]
    words = ("sweep", "run", plan(tmp_path / "plan.jsonl", jobs), "--results", folder, "--engine", nodes.name, *options)
    words = (*words, "--attempts", 1)
    with subprocess.Popen(command(*words), env=environment(), stderr=subprocess.DEVNULL) as driver:
        process = wait_for(lambda: begun_by(folder, jobs[0].key))
        os.kill(process, signal.SIGSTOP)
        driver.kill()
    if isinstance(nodes, RayNodes):
        # It is told to end, and cannot hear that before it goes on.
        os.kill(process, signal.SIGCONT)
        wait_for(lambda: not processes_of(folder))
    first = {path: path.stat().st_mtime_ns for path in folder.glob("results/*.json")}
    with subprocess.Popen(command(*words), env=environment(), stderr=subprocess.PIPE, text=True) as second:
        if isinstance(nodes, SlurmNodes):
            assert len(nodes.states(sweep_name(folder))) <= len(jobs)
            os.kill(process, signal.SIGCONT)
        _, said = second.communicate(timeout=120)
    assert second.returncode == 3, said
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert matrix(folder, jobs) == expected


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_on_any_node(nodes: RayNodes | SlurmNodes, jobs: list[Job], tmp_path: Path) -> None:
    folder = tmp_path / "swept"
    options = [word for name, value in nodes.options.items() for word in ("--option", f"{name}={value}")]
    words = ("sweep", "run", plan(tmp_path / "plan.jsonl", jobs), "--results", folder, "--engine", nodes.name, *options)
    with subprocess.Popen(command(*words), env=environment(), stderr=subprocess.PIPE, text=True) as driver:
        wait_for(lambda: begun_by(folder, jobs[0].key))
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert said.splitlines()[-1] == "interrupted"
    assert processes_of(folder) == []
    if isinstance(nodes, SlurmNodes):
        assert [state for state in nodes.states(sweep_name(folder)) if "RUNNING" in state or "PENDING" in state] == []


@ON_SLURM
def test_what_slurm_ends(nodes: SlurmNodes, tmp_path: Path) -> None:
    """Too much memory, cancelled by somebody, another job that goes before."""
    sleep = ("sh", "-c", "exec sleep 60")
    grow = python("import time; held = b'x' * 400_000_000; time.sleep(60)")
    name = sweep_name(tmp_path)
    with opened(nodes, tmp_path) as engine:
        engine.submit(Task("grew", grow, Resources(100)))
        found = ends(engine, 1)
        engine.submit(Task("cancelled", sleep, Resources(100)))
        engine.submit(Task("preempted", sleep, Resources(1700)))
        wait_for(lambda: engine.finished(0.2) or sum("RUNNING" in one for one in nodes.states(name)) == 2)
        by_memory = nodes.call("squeue", "-h", "--array", f"--name={name}", "-o", "%m %i").splitlines()
        nodes.call("scancel", dict(line.split() for line in by_memory)["157M"])
        nodes.call("sbatch", "-p", "urgent", "--exclusive", "-N2", "--wrap", "sleep 1", "-o", "/dev/null")
        found |= ends(engine, 2)
    assert "memory limit" in found.pop("grew").reason
    assert {key: one.reason for key, one in found.items()} == {
        "cancelled": "it was cancelled in Slurm",
        "preempted": "Slurm gave its node to another job",
    }


@ON_RAY
@pytest.mark.slow
def test_a_connection_to_ray_that_is_lost(nodes: RayNodes, tmp_path: Path) -> None:
    mark = f"sleep 601.{os.getpid()}"
    with opened(nodes, tmp_path) as engine:
        engine.submit(Task("job", ("sh", "-c", f"exec {mark}"), Resources(100)))
        wait_for(lambda: engine.finished(0.2) or processes_with(mark))
        (driver,) = processes_with(f"ray_cluster.*{sweep_name(tmp_path)}")
        os.kill(driver, signal.SIGKILL)
        with pytest.raises(BadInputError, match="the connection to Ray's cluster is lost"):
            ends(engine, 1)
    wait_for(lambda: not processes_with(mark))
