"""Run the whole catalogue on collectors of well-known packages from the index, and write what came out.

    pip install torch torchvision timm pytorch-lightning accelerate pytorch_optimizer torchtitan \
        deepspeed verl "ray[rllib]"
    python benchmarks/packages.py --python PYTHON

Writes benchmarks/results/packages.json and docs/evidence/packages.md, but for the part of that page under
"Checked by hand", which people write and this script keeps.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "packages.json"
PAGE = ROOT / "docs" / "evidence" / "packages.md"
BY_HAND = "## Checked by hand"


@dataclass(frozen=True)
class Subject:
    """A public collector: the distribution that holds it, how it is named, and the options that it needs."""

    distribution: str
    call: str
    options: tuple[str, ...] = ()


_CLIP_AT_1 = ("--argument", "max_norm=1.0")
_TENSORS = ("--takes", "gradients")
SUBJECTS = (
    Subject("torch", "torch.nn.utils:clip_grad_norm_", _CLIP_AT_1),
    Subject("torch", "torch.nn.utils:get_total_norm", _TENSORS),
    Subject("pytorch-lightning", "pytorch_lightning.utilities.grads:grad_norm", ("--argument", "norm_type=2")),
    Subject("timm", "timm.utils.clip_grad:dispatch_clip_grad", ("--argument", "value=1.0")),
    Subject("accelerate", "accelerate.accelerator:Accelerator.clip_grad_norm_", _CLIP_AT_1),
    Subject("pytorch-optimizer", "pytorch_optimizer.optimizer.utils.gradient:clip_grad_norm"),
    Subject("torchtitan", "torchtitan.distributed.utils:clip_grad_norm_", _CLIP_AT_1),
    Subject("ray", "ray.rllib.utils.torch_utils:compute_global_norm", _TENSORS),
    Subject("deepspeed", "deepspeed.runtime.utils:get_global_norm_of_tensors", _TENSORS),
    Subject("deepspeed", "deepspeed.runtime.utils:get_flattened_grad_norm"),
    Subject("verl", "verl.utils.torch_functional:compute_grad_norm"),
)


def run_subject(subject: Subject, python: str) -> dict[str, Any]:
    """The document of the whole catalogue on one collector, from an empty folder."""
    probes = subprocess.run(
        [sys.executable, "-m", "auditkit", "probe", "list", "--json"], capture_output=True, text=True, check=True
    )
    named = [probe["id"] for probe in json.loads(probes.stdout)["probes"] if probe["contracts"]]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "auditkit", "probe", "run", *named, "--json", "--checkout", folder]
        command += ["--python", python, "--target", subject.call, *subject.options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if not done.stdout:
        raise SystemExit(f"{subject.call}: exit {done.returncode}\n{done.stderr}")
    return dict(json.loads(done.stdout))


def version_of(distribution: str, python: str) -> str:
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def kept(subject: Subject, version: str, document: dict[str, Any]) -> dict[str, Any]:
    """What is worth keeping of a document: every outcome with its sentence and its place."""
    keys = ("probe", "outcome", "severity", "evidence", "reason", "device", "message", "law", "location")
    results = [{key: result[key] for key in keys} for result in document["results"]]
    run = {key: document["run"][key] for key in ("python", "torch", "device", "device_name")}
    return {
        "distribution": subject.distribution,
        "version": version,
        "call": subject.call,
        "options": list(subject.options),
        "run": run,
        "results": results,
    }


def render(rows: list[dict[str, Any]], by_hand: str) -> str:
    """The page: a table of counts, what reproduced on each collector, and what could not be judged."""
    run = rows[0]["run"]
    lines = [
        "# Collectors of well-known packages",
        "",
        f"Written by `benchmarks/packages.py`: torch {run['torch']}, Python {run['python']}, {run['device_name']}, no",
        "GPU: device traffic is simulated, the rest is measured on the CPU. Each collector was named with `--target`",
        "in an empty folder and went through the whole catalogue.",
        "",
        "| package | version | collector | reproduced | not reproduced | not applicable | unavailable | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    outcomes = ("reproduced", "not_reproduced", "not_applicable", "unavailable", "error")
    for row in rows:
        counts = Counter(result["outcome"] for result in row["results"])
        cells = " | ".join(str(counts[outcome]) for outcome in outcomes)
        lines.append(f"| {row['distribution']} | {row['version']} | `{row['call']}` | {cells} |")
    for row in rows:
        lines += ["", f"## {row['call']}", ""]
        lines += [f"`{' '.join(['--target', row['call'], *row['options']])}`", ""]
        lines += [_line(result) for result in row["results"] if result["outcome"] == "reproduced"] or ["Nothing."]
        other = [result for result in row["results"] if result["outcome"] in ("unavailable", "error", "not_applicable")]
        if other:
            lines += ["", "Not judged:", ""]
            lines += [f"- {r['probe']}: {r['outcome'].replace('_', ' ')}: {r['message']}" for r in other]
    return "\n".join(lines) + "\n\n" + by_hand


def _line(result: dict[str, Any]) -> str:
    place = result["location"] or {}
    where = f" at {place['file']}:{place['line']}" if place else ""
    return f"- {result['severity']} {result['probe']}{where} ({result['evidence']}): {result['message']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    rows = []
    for subject in SUBJECTS:
        document = run_subject(subject, arguments.python)
        rows.append(kept(subject, version_of(subject.distribution, arguments.python), document))
        print(subject.call, document["summary"], flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    by_hand = BY_HAND + old.partition(BY_HAND)[2] if BY_HAND in old else f"{BY_HAND}\n"
    PAGE.write_text(render(rows, by_hand), encoding="utf-8")


if __name__ == "__main__":
    main()
