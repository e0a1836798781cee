"""Run the probes on a public repository at the revisions that its own audits judged, and write the table.

    git clone https://github.com/tachyon-beep/esper-lite
    python benchmarks/esper_lite.py esper-lite --python PYTHON

PYTHON needs torch, and for the last two rows also torchvision, pydantic, psutil, rich, yaml and textual.
Writes benchmarks/results/esper_lite.json (every run's whole document) and docs/evidence/esper-lite.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "esper_lite.json"
PAGE = ROOT / "docs" / "evidence" / "esper-lite.md"

PROBES = (
    "syncs_grow_with_tensors",
    "launches_grow_with_tensors",
    "peak_memory_grows_with_params",
    "norm_overflows_on_finite_grads",
)


@dataclass(frozen=True)
class Row:
    """One target at one revision, and what earlier hand measurements of it gave."""

    revision: str
    target: str
    options: tuple[str, ...]
    expected_syncs: str
    expected_launches: str | None
    expected_ratio: float
    expected_at_1e20: str


_MONITOR = "esper.kasmina.isolation:GradientIsolationMonitor.check_isolation"
_SURROGATE = "esper.simic.telemetry.emitters:compute_grad_norm_surrogate"
ROWS = (
    Row("6de1b57", _MONITOR, ("--contract", "monitor", "--takes", "module"), "1", "3n+1", 0.10, "inf"),
    Row("1bc9278", _MONITOR, ("--contract", "monitor", "--takes", "module"), "1", "5", 0.0, "inf"),
    Row(
        "181a4c41~1",
        "esper.simic.gradient_collector:collect_seed_gradients",
        ("--contract", "grad_stats", "--takes", "parameters", "--argument", "return_enhanced=true"),
        "n+3",
        None,
        3.25,
        "inf",
    ),
    Row("874190c0~1", _SURROGATE, ("--contract", "grad_norm", "--takes", "module"), "1", None, 0.10, "inf"),
    Row("874190c0", _SURROGATE, ("--contract", "grad_norm", "--takes", "module"), "1", None, 2.0, "finite"),
)


def run_row(row: Row, repository: Path, python: str) -> dict[str, Any]:
    """The whole JSON document of one row's run. Raises SystemExit where a probe gave no answer."""
    command = [sys.executable, "-m", "auditkit", "probe", "run", *PROBES, "--json", "--python", python]
    command += ["--checkout", f"{repository}@{row.revision}", "--target", row.target, *row.options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{row.target} at {row.revision}: exit {done.returncode}\n{done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    document["run"]["checkout"] = f"esper-lite@{row.revision}"
    document["run"]["interpreter"] = "python"
    return document


def read_row(document: dict[str, Any]) -> dict[str, Any]:
    """The figures of one run: sync and launch laws, the ratio at 100M parameters, the norm at 1e20."""
    results = {result["probe"]: result for result in document["results"]}
    memory = results["peak_memory_grows_with_params"]["measurements"]
    ratio = next(
        m["value"]
        for m in memory
        if m["name"] == "peak_extra_per_gradient_byte"
        and m["evidence"] == "measured"
        and (m["case"]["params"], m["case"]["tensors"]) == (100_000_000, 10)
    )
    overflow = results["norm_overflows_on_finite_grads"]["measurements"]
    return {
        "syncs": results["syncs_grow_with_tensors"]["law"],
        "sync_counts": [
            m["value"] for m in results["syncs_grow_with_tensors"]["measurements"] if m["name"] == "sync_count"
        ],
        "launches": results["launches_grow_with_tensors"]["law"],
        "ratio": ratio,
        "at_1e20": next(m["value"] for m in overflow if m["name"] == "norm"),
    }


def render(rows: list[tuple[Row, dict[str, Any]]], environment: dict[str, Any]) -> str:
    """The page: one line for each row, expected and read side by side."""
    lines = [
        "# tachyon-beep/esper-lite, at the revisions that its audits judged",
        "",
        f"Written by `benchmarks/esper_lite.py`, torch {environment['torch']}, Python {environment['python']}, "
        f"{environment['device_name']}, no GPU: syncs and launches simulated, the rest measured on the CPU.",
        "Syncs and launches for n = 4, 16, 64, 256 tensors; memory is the peak extra bytes per gradient byte at 100M",
        "float32 parameters in 10 tensors; the norm is what the target reports for 4,096 elements of 1e20.",
        "In each cell: read (what an earlier measurement by hand gave).",
        "",
        "| target | revision | syncs | launches | memory | norm at 1e20 |",
        "|---|---|---|---|---|---|",
    ]
    for row, read in rows:
        norm = read["at_1e20"] if isinstance(read["at_1e20"], str) else f"{read['at_1e20']:.3g}"
        lines.append(
            f"| `{row.target}` | {row.revision} | {read['syncs']} ({row.expected_syncs}) "
            f"| {read['launches']} ({row.expected_launches or 'not given'}) "
            f"| {read['ratio']:.3g}x ({row.expected_ratio:g}x) | {norm} ({row.expected_at_1e20}) |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run every row and write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    documents = [run_row(row, arguments.repository.resolve(), arguments.python) for row in ROWS]
    RESULTS.write_text(json.dumps(documents, indent=1) + "\n", encoding="utf-8")
    rows = [(row, read_row(document)) for row, document in zip(ROWS, documents, strict=True)]
    PAGE.write_text(render(rows, documents[0]["run"]), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
