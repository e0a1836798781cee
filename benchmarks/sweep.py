"""What a sweep costs: planning, the driver's memory, a job's process, and what a second core gains.

    python -m benchmarks.sweep [--only plan|driver|job|speed_up|machine]
    python -m benchmarks.sweep --page       # only rewrite the page from the results

Writes benchmarks/results/sweep.json and docs/evidence/sweep.md. Processor time is user and system. The speed-up is of
the clock, the least of several turns: it needs a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditkit.model.enums import DeviceChoice
from auditkit.workflows.sweep import driver
from auditkit.workflows.sweep.driver import SweepRequest, run_sweep
from auditkit.workflows.sweep.engines.protocol import Ended, EngineSettings, Task
from auditkit.workflows.sweep.folder import Answer, ResultsFolder
from auditkit.workflows.sweep.jobs import EnvironmentSpec, Job, Resources, read_plan, write_plan
from auditkit.workflows.sweep.order import Order, command_of
from benchmarks.evidence import ROOT, results_of, rows, store_results, write_blocks

NAME = "sweep"
PLANNED, DRIVEN = 100_000, 10_000
LARGE, TURNS = 6, 2
SPECIMEN = ROOT / "probes" / "specimens" / "gradient_monitoring"
NUMERIC = ("norm_overflows_on_finite_grads", "norm_underflows_to_zero", "nonfinite_grads_look_healthy")
LIMITS = {"plan": "20 s", "driver": "300 MB"}


def job(name: str, probes: Sequence[str], **more: Any) -> Job:
    fields: dict[str, Any] = {"repository": str(SPECIMEN), "revision": "", "environment": EnvironmentSpec()}
    fields |= {"device": DeviceChoice.CPU, "resources": Resources(500), **more}
    return Job("", name, revision_name="", probes=tuple(probes), **fields)


def planning(folder: Path) -> dict[str, float]:
    """Processor seconds and memory of the command that plans so many jobs of a thousand checkouts."""
    names = "".join(f"  - https://example.org/team/code{number}@{'1' * 40}\n" for number in range(1000))
    versions = ", ".join(f"2.{number}" for number in range(PLANNED // 1000))
    path = folder / "sweep.yaml"
    path.write_text(f"checkouts:\n{names}torch: [{versions}]\n", encoding="utf-8")
    with open(folder / "plan.jsonl", "wb") as plan:
        took_s, memory_mb = measured([sys.executable, "-P", "-m", "auditkit", "sweep", "plan", str(path)], plan)
    lines = sum(1 for _ in open(folder / "plan.jsonl", "rb"))  # noqa: SIM115
    return {"jobs": lines, "processor_s": round(took_s, 1), "memory_mb": memory_mb}


def measured(command: Sequence[str], out: Any = subprocess.DEVNULL) -> tuple[float, int]:
    """Processor seconds and the most memory in MB of a command. Raises SystemExit where it fails."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)[:200]}: exit {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1000


class Instant:
    """An engine whose jobs have answered by the time they are asked about: what is left is the driver's own."""

    capacity = 1000
    left_behind = ()

    def __init__(self, settings: EngineSettings) -> None:
        self.folder, self.tasks = ResultsFolder(settings.folder), list[Task]()

    def submit(self, task: Task) -> None:
        order = Order.from_json(json.loads(task.command[-1]))
        self.folder.begin(task.key, 1)
        self.folder.put(Answer(order.job, {}))
        self.tasks.append(task)

    def finished(self, _: float) -> list[Ended]:
        ended, self.tasks = [Ended(task.key, 0) for task in self.tasks], []
        return ended

    def close(self) -> None: ...


def drive(plan: Path, folder: Path) -> None:
    """Run a whole plan on the instant engine, and print what this process took for it."""
    driver.open_engine = lambda _, settings: Instant(settings)
    jobs = read_plan(plan)
    swept = run_sweep(SweepRequest(jobs, folder, folder))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    took_ms = 1000 * (usage.ru_utime + usage.ru_stime) / swept.answered
    print(json.dumps({"jobs": swept.answered, "memory_mb": usage.ru_maxrss // 1000, "processor_ms": round(took_ms, 2)}))


def driving(folder: Path) -> dict[str, float]:
    plan = folder / "driven.jsonl"
    sha = "1" * 40
    whole = [job(f"code{number}", NUMERIC, repository=f"/code/{number}", revision=sha) for number in range(DRIVEN)]
    plan.write_text("".join(f"{line}\n" for line in write_plan(whole)), encoding="utf-8")
    words = [sys.executable, "-m", "benchmarks.sweep", "--drive", str(plan), str(folder / "driven")]
    return dict(json.loads(subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout))


def numbered(one: Job, count: int) -> list[Job]:
    """The same job so often, under keys of their own."""
    limits = (replace(one.settings, time_limit_s=100.0 + number) for number in range(count))
    return [replace(one, key="", settings=settings) for settings in limits]


def smallest(_: Path) -> dict[str, float]:
    """Processor milliseconds of a job that has its answer already, which is what it takes to start one, and of one."""
    with tempfile.TemporaryDirectory() as name:
        done, *others = numbered(job("small", ("sync_in_loop",)), 6)
        place = ResultsFolder(Path(name))
        place.prepare([done, *others])
        place.put(Answer(done, {}))
        start, small = (
            statistics.median(measured(command_of(Order(name, 1, name, one)))[0] for one in jobs)
            for jobs in ([done] * 5, others)
        )
    return {"start_ms": round(1000 * start), "smallest_job_ms": round(1000 * small)}


def speed_up(folder: Path) -> dict[str, Any]:
    """Clock seconds of the same jobs on one core, one at a time, and on two cores, two at a time."""
    cores = sorted(os.sched_getaffinity(0))
    jobs = numbered(job("large", NUMERIC), LARGE)

    def sweep(count: int, turn: int) -> float:
        os.sched_setaffinity(0, set(cores[:count]))
        began = time.monotonic()
        swept = run_sweep(SweepRequest(jobs, folder / f"{count}-{turn}", folder, at_a_time=count, fresh=True))
        os.sched_setaffinity(0, set(cores))
        if swept.failed:
            raise SystemExit(f"no answer: {swept.failed}")
        return time.monotonic() - began

    clock: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(TURNS):
        for count, took in clock.items():
            took.append(sweep(count, turn))
    one, two = (min(clock[count]) for count in (1, 2))
    turns = {str(count): [round(each, 1) for each in took] for count, took in clock.items()}
    return {
        "jobs": LARGE,
        "one_core_s": round(one, 1),
        "two_cores_s": round(two, 1),
        "speed_up": round(one / two, 2),
        "turns_s": turns,
    }


def blocks(found: dict[str, Any]) -> dict[str, str]:
    plan, drive_, small, fast, machine = (found[name] for name in ("plan", "driver", "job", "speed_up", "machine"))
    figures = [
        (
            f"plan of {plan['jobs']:,} jobs",
            f"{plan['processor_s']} s of processor time, {plan['memory_mb']} MB",
            LIMITS["plan"],
        ),
        (
            f"driver of {drive_['jobs']:,} jobs",
            f"{drive_['memory_mb']} MB, {drive_['processor_ms']} ms of processor time a job",
            LIMITS["driver"],
        ),
        ("start of a job's process", f"{small['start_ms']} ms of processor time", ""),
        (
            "smallest job, which reads the source of a small checkout",
            f"{small['smallest_job_ms']} ms of processor time",
            "",
        ),
        (
            f"{fast['jobs']} jobs on two cores against one",
            f"{fast['two_cores_s']} s against {fast['one_core_s']} s: {fast['speed_up']} times as fast",
            "",
        ),
    ]
    load = ", ".join(map(str, machine["load_average"]))
    return {
        "environment": f"{machine['cores']} cores, Python {machine['python']}, torch {machine['torch']}; load {load}.",
        "figures": rows(["what", "figure", "limit"], figures),
    }


def run(only: str) -> None:
    take: dict[str, Callable[[Path], Any]] = {
        "plan": planning, "driver": driving, "job": smallest, "speed_up": speed_up, "machine": machine,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        found = {what: measure(Path(name)) for what, measure in take.items() if only in (what, "")}
    store_results(NAME, results_of(NAME) | found)


def machine(_: Path) -> dict[str, Any]:
    from benchmarks.machine import environment  # which imports torch: no part of a driver's memory

    return environment("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="plan, driver, job, speed_up or machine")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--drive", nargs=2, type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.drive:
        drive(*asked.drive)
        return
    if not asked.page:
        run(asked.only)
    write_blocks(NAME, blocks(results_of(NAME)))


if __name__ == "__main__":
    main()
