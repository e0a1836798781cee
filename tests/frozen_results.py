"""Every result of an audit, frozen: target, probe, outcome, severity, law and line of a list of checkouts.

python -m tests.frozen_results write|compare [--clones FOLDER] [--only NAME ...]

FOLDER holds a clone of each repository of benchmarks/reach and of esper-lite, under its name; a checkout that is absent
there is left as it is. `compare` prints each row that differs and exits with 1. A change of the engine may change a row
only for a reason that its commit states.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "data" / "frozen_results.txt"
OWN = ("probes/specimens/gradient_monitoring", "probes/specimens/spectral_analysis", "probes/specimens/training_steps",
       "tests/targets/steps", "tests/targets/public_cases")  # fmt: skip
ESPER = ("6de1b57", "1bc9278", "181a4c41~1")


def checkouts(clones: Path | None) -> dict[str, str]:
    """What to audit, by its name: CHECKOUT[@REV]."""
    found = {path: str(ROOT / path) for path in OWN}
    if clones is not None:
        for path in sorted((ROOT / "benchmarks" / "reach").glob("*.yaml")):
            if (clones / path.stem).is_dir():
                revision = yaml.safe_load(path.read_text("utf-8"))["revision"]
                found[path.stem] = f"{clones / path.stem}@{revision}"
        if (clones / "esper-lite").is_dir():
            found |= {f"esper-lite@{revision}": f"{clones / 'esper-lite'}@{revision}" for revision in ESPER}
    return found


def audit(checkout: str, python: str) -> dict[str, Any]:
    """The run of one checkout without configuration, tickets, fixes or cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "auditkit", "audit", checkout, "--python", python, "--json"]
        done = subprocess.run(
            [*command, "--no-tickets", "--fix-time=0", "--fresh"], cwd=folder, capture_output=True, text=True
        )
    if not done.stdout:
        raise SystemExit(f"{checkout}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def rows(name: str, run: dict[str, Any]) -> list[str]:
    """One line per result: checkout, target, probe, then outcome, severity, law and line. Not applicable is absence."""
    found = set()
    for one in run["results"]:
        if one["outcome"] != "not_applicable":
            line = one["location"]["line"] if one["location"] else ""
            target = one["fingerprint"].split("/", 2)[2] if one["fingerprint"] else one["target"]
            found.add(
                f"{name} | {target} | {one['probe']} | {one['outcome']} {one['severity'] or ''} {one['law']} {line}"
            )
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["write", "compare"])
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    kept = FILE.read_text("utf-8").splitlines() if FILE.is_file() else []
    differences = 0
    for name, checkout in checkouts(options.clones).items():
        if options.only and name not in options.only:
            continue
        print(name, file=sys.stderr, flush=True)
        before = [row for row in kept if row.startswith(f"{name} | ")]
        after = rows(name, audit(checkout, options.python))
        if options.verb == "write":
            kept = [row for row in kept if row not in set(before)] + after
            FILE.write_text("\n".join(kept) + "\n", encoding="utf-8")
        else:
            signed = {f"- {row}" for row in set(before) - set(after)} | {f"+ {row}" for row in set(after) - set(before)}
            differences += len(signed)
            print(*sorted(signed, key=lambda row: (row[2:], row[0])), sep="\n", flush=True)
    if differences:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
