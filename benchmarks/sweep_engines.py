"""What each engine of a sweep takes for a job that does nothing, its daemons and all that they start counted.

    python -m benchmarks.sweep_engines

Starts two nodes of Ray and of Slurm on loopback addresses of this machine, Slurm where it is installed and the user is
root. Writes benchmarks/results/sweep_engines.json and its table in docs/evidence/sweep_engines.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from auditkit.workflows.sweep.engines.opening import ENGINES, open_engine
from auditkit.workflows.sweep.engines.protocol import EngineSettings, Task
from auditkit.workflows.sweep.jobs import Resources
from benchmarks.evidence import ROOT, results_of, rows, store_results, write_blocks
from tests.clusters import ray_nodes, slurm_nodes

NAME = "sweep_engines"
FEW, MANY = 20, 220
_SET_CHILD_SUBREAPER = 36


def run(name: str, count: int) -> dict[str, float]:
    """Seconds by the clock from the first task to the last end, and of the processors from the first daemon on."""
    # Whatever loses its parent, such as Slurm's steps, becomes this process's child, and so its time is counted.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    clusters: dict[str, Any] = {"local": contextlib.nullcontext, "ray": ray_nodes, "slurm": slurm_nodes}
    with tempfile.TemporaryDirectory() as folder, clusters[name]() as nodes:
        Path(folder, "logs").mkdir()
        options = {"address": nodes.address} if name == "ray" else {}
        engine = open_engine(name, EngineSettings(Path(folder), f"empty-{os.getpid()}", None, options))
        began, ended, asked = time.monotonic(), 0, 0
        while ended < count:
            while asked < count and asked - ended < engine.capacity:
                engine.submit(Task(f"job-{asked}", ("true",), Resources(10)))
                asked += 1
            found = engine.finished(1.0)
            ended += len(found)
            if wrong := [one.reason for one in found if one.exit_code != 0]:
                raise SystemExit(f"{name}: {wrong[0]}")
        clock_s = time.monotonic() - began
        own = resource.getrusage(resource.RUSAGE_SELF)
        engine.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "clock_s": round(clock_s, 2),
        "driver_s": round(own.ru_utime + own.ru_stime, 2),
        "others_s": round(others.ru_utime + others.ru_stime, 2),
    }


def per_job(name: str) -> dict[str, Any]:
    """What a job more takes, in milliseconds: the start of the engine is in neither."""
    few, many = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "benchmarks.sweep_engines", name, str(count)],
                cwd=ROOT,
                check=True,
                capture_output=True,
                text=True,
            ).stdout.splitlines()[-1]
        )
        for count in (FEW, MANY)
    )
    more = {what.replace("_s", "_ms"): round(1000 * (many[what] - few[what]) / (MANY - FEW), 1) for what in few}
    return {**more, "few": few, "many": many}


def block(found: dict[str, Any]) -> str:
    cells = [
        (name, *(f"{one[what]:g} ms" for what in ("clock_ms", "driver_ms", "others_ms")))
        for name, one in found["engines"].items()
    ]
    table = rows(["engine", "by the clock", "driver's processor time", "its daemons' and the job's"], cells)
    machine = found["machine"]
    load = ", ".join(map(str, machine["load_average"]))
    return f"{machine['cores']} cores, Python {machine['python']}; load {load}.\n\n{table}"


def main() -> None:
    if len(sys.argv) == 3:
        print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
        return
    found = results_of(NAME)
    found["engines"] = {name: per_job(name) for name in ENGINES}
    load = [round(one, 2) for one in os.getloadavg()]
    found["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "load_average": load}
    store_results(NAME, found)
    write_blocks(NAME, {"empty_jobs": block(found)})


if __name__ == "__main__":
    main()
