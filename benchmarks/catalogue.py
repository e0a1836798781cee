"""Where the time of an audit goes: the whole catalogue on one target, and the bundled specimen.

    python -m benchmarks.catalogue
    python -m benchmarks.catalogue --page       # only rewrite the page from the results

Writes benchmarks/results/catalogue.json and the page. Each command runs in a child of its own,
so that its processor time is its own.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.evidence import ROOT, results_of, rows, store_results, write_blocks

SPECIMEN = ROOT / "probes" / "specimens" / "gradient_monitoring"
TARGETS = ("squared-sum-norm", "concatenated-quality", "sound-quality", "sound-health-async")
"""One target for each of: a norm, the most memory, the most fields, and two steps with the most counting."""

_COMMAND_LIMIT_S, _SPECIMEN_LIMIT_S = 12.0, 60.0


def audit_cost(words: Sequence[str]) -> dict[str, Any]:
    """Run one audit in a child: wall and processor seconds, and the seconds of every probe."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "auditkit", *words, "--json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        load, started = os.getloadavg()[0], time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.stdout:
        raise SystemExit(f"{words}: exit {done.returncode}\n{done.stderr}")
    document = json.loads(done.stdout)
    probes: dict[str, list[float]] = {}
    for result in document["results"]:
        probes.setdefault(result["probe"], []).append(result["duration_s"])
    return {
        "command": " ".join(["auditkit", *words]).replace(str(SPECIMEN), "SPECIMEN"),
        "wall_s": round(wall_s, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "load_average_before": round(load, 2),
        "targets": len({result["target"] for result in document["results"] if result["device"] != "source"}),
        "probes": len(probes),
        "summary": document["summary"],
        "run": {key: document["run"][key] for key in ("torch", "python", "device", "device_name")},
        "probe_s": {probe: round(sum(seconds), 2) for probe, seconds in sorted(probes.items())},
        "slowest_s": {probe: round(max(seconds), 2) for probe, seconds in sorted(probes.items())},
    }


def measure() -> dict[str, Any]:
    """Return every figure of the page."""
    words = ["audit", str(SPECIMEN), "--tickets", "tickets"]
    return {
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform()},
        "targets": [audit_cost([*words, "--target", name]) for name in TARGETS],
        "specimen": audit_cost(words),
    }


def blocks(results: dict[str, Any]) -> dict[str, str]:
    """The marked blocks of the page."""
    specimen, machine = results["specimen"], results["machine"]
    run = specimen["run"]
    commands = [*(_command_row(cost, _COMMAND_LIMIT_S) for cost in results["targets"])]
    columns = ("command", "targets", "wall s", "processor s", "limit s", "load before")
    slowest = sorted(specimen["probe_s"].items(), key=lambda item: -item[1])
    probes = [(f"`{probe}`", seconds, specimen["slowest_s"][probe]) for probe, seconds in slowest]
    return {
        "environment": f"{run['device_name']}, {machine['cpus']} cores, no GPU, Python {run['python']}, torch "
        f"{run['torch']}. The catalogue holds {specimen['probes']} probes, SPECIMEN {specimen['targets']} targets.",
        "commands": rows(columns, [*commands, _command_row(specimen, _SPECIMEN_LIMIT_S)]),
        "probes": rows(("probe", "all targets s", "slowest target s"), probes),
    }


def _command_row(cost: dict[str, Any], limit_s: float) -> tuple[Any, ...]:
    words = cost["command"].replace(" --tickets tickets", "")
    costs = (cost["targets"], cost["wall_s"], cost["cpu_s"], f"{limit_s:g}", cost["load_average_before"])
    return (f"`{words}`", *costs)


def main() -> None:
    """Measure, unless only the page is asked for, and write it."""
    if "--page" not in sys.argv:
        store_results("catalogue", measure())
    print(write_blocks("speed", blocks(results_of("catalogue"))))


if __name__ == "__main__":
    main()
