"""What the bundled audit and the 100M-parameter memory probe cost: wall and CPU seconds, and peak memory.

    python benchmarks/bundled_audit.py

Writes benchmarks/results/bundled_audit.json. Peak memory is the largest resident set of any process of the
run, so two targets side by side may take twice as much together.
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bundled_audit.json"
SPECIMEN = ROOT / "probes" / "specimens" / "gradient_monitoring"


def cost_of(words: list[str]) -> dict[str, Any]:
    """Run one command in a child of its own, so that its resource usage is its own."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{words}: exit {done.returncode}\n{done.stderr}")
    document = json.loads(done.stdout)
    return {
        "command": " ".join(words[2:]).replace(str(SPECIMEN), "SPECIMEN"),
        "wall_s": round(wall_s, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "largest_process_bytes": after.ru_maxrss * 1024,
        "summary": document["summary"],
        "torch": document["run"]["torch"],
        "python": document["run"]["python"],
        "device": document["run"]["device"],
        "device_name": document["run"]["device_name"],
    }


def main() -> None:
    """The memory probe first (the largest processes), each in a fresh child, then the whole audit."""
    probe = ["probe", "run", "peak_memory_grows_with_params", "--json", "--checkout", str(SPECIMEN), "--target"]
    rows = [
        cost_of(["-m", "auditkit", *probe, name])
        for name in ("squared-sum-norm", "sound-quality", "concatenated-quality")
    ]
    rows.append(cost_of(["-m", "auditkit", "audit", "--json"]))
    machine = {"cpus": os.cpu_count(), "platform": platform.platform(), "load_average_1min": os.getloadavg()[0]}
    RESULTS.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
