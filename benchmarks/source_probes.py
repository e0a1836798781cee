"""What reading a checkout costs: all source probes over 2,000 written files, and over an installed torch.

    python -m benchmarks.source_probes
    python -m benchmarks.source_probes --page       # only rewrite the page from the results

Writes benchmarks/results/source_probes.json and docs/evidence/source-probes.md. Each checkout is read in a child
of its own, so that its processor time and its largest size are its own. Nothing that is read is imported.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib.metadata
import importlib.util
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.evidence import ROOT, results_of, rows, store_results, write_blocks

FILES, TESTS_EVERY = 2000, 5
SEED = 20_251_216

_MODULE = '''"""Telemetry of part {number}."""

from dataclasses import dataclass

import torch
from torch import nn

from pkg.part{other:02d} import module{other_file:03d}

LIMIT_{number} = {limit}


@dataclass
class Part{number}Stats:
    """What part {number} measured."""

    norm: float
    count: int

    def is_healthy(self, limit: float = {limit}) -> bool:
        return self.norm < limit and self.count > 0


class Part{number}Monitor(nn.Module):
    """Watches the gradients of part {number}."""

    def __init__(self, width: int = 16, limit: float = {limit}):
        super().__init__()
        self.width, self.limit = width, limit
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, batch):
        for layer in self.layers:
            batch = torch.relu(layer(batch))
        return batch

    def stats(self, parameters) -> Part{number}Stats:
        grads = [p.grad for p in parameters if p.grad is not None]
        if not grads:
            return Part{number}Stats(0.0, 0)
        norms = torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads])
        return Part{number}Stats(norms.norm().item(), len(grads))
'''
_FUNCTION = '''

def compute_{number}_{index}(parameters, scale: float = {scale}, dim: int = 0):
    """One of the figures of part {number}."""
    total, found = 0.0, {{}}
    for place, parameter in enumerate(parameters):
        if parameter.grad is None:
            continue
        norm = parameter.grad.detach().float().norm()
        found[f"layer_{{place}}"] = norm * scale
        if place % 10 == {index}:
            total += {read}
    values = torch.stack(list(found.values())) if found else torch.zeros(1)
    result = {{"total": total, "mean": values.mean(dim), "max": values.max()}}
    return module{other_file:03d}.combine(result) if hasattr(module{other_file:03d}, "combine") else result
'''


def write_checkout(folder: Path, files: int = FILES) -> None:
    """`files` modules of 60 to 200 lines in packages of 40, a fifth of them tests; the same at every call."""
    chance = random.Random(SEED)
    for number in range(files):
        if number % TESTS_EVERY == 0:
            path = folder / "tests" / f"test_{number:04d}.py"
            name = number + 1
            text = (
                f"from pkg.part{name // 40:02d}.module{name:03d} import Part{name}Monitor, compute_{name}_0\n\n\n"
                + "\n\n".join(
                    f"def test_case_{case}():\n    assert compute_{name}_0([]) is not None\n"
                    f"    assert Part{name}Monitor().width == 16\n"
                    for case in range(chance.randint(5, 25))
                )
            )
        else:
            part, other = number // 40, chance.randrange(files)
            path = folder / "src" / "pkg" / f"part{part:02d}" / f"module{number:03d}.py"
            shared = {"number": number, "other": other // 40, "other_file": other, "limit": chance.choice((10.0, 1e-7))}
            text = _MODULE.format(**shared)
            for index in range(chance.randint(1, 8)):
                read = chance.choice(("norm", "norm", "norm.item()", "float(norm)"))
                text += _FUNCTION.format(**shared, index=index, scale=chance.choice((0.5, 3.0)), read=read)
            (path.parent).mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "src" / "pkg" / "__init__.py").touch()
    (folder / "pyproject.toml").write_text('[project]\nname = "pkg"\n', encoding="utf-8")


def read_once(folder: Path) -> dict[str, Any]:
    """In this process: read `folder`, ask every source probe about all of it, and say what that took."""
    from auditkit.model.runs.probe import Policy
    from auditkit.probing.hosts.catalog import load_catalog
    from auditkit.probing.source_code.index import SourceIndex
    from auditkit.probing.source_probes.runner import run_source_probes

    probes = [probe for probe in load_catalog().values() if probe.scope == "source"]
    marks = [("read and index", time.process_time())]
    started = time.monotonic()
    index = SourceIndex(folder)
    started_at = lambda probe: marks.append((probe, time.process_time()))  # noqa: E731
    results = list(run_source_probes(probes, index, lambda _: True, Policy(), 300.0, started_at))
    marks.append(("", time.process_time()))
    return {
        "files": len(index.python_files),
        "lines": sum(index.source_of(module).count(b"\n") for module in index.modules),
        "not_parsed": len(index.problems),
        "wall_s": round(time.monotonic() - started, 2),
        "cpu_s": round(marks[-1][1] - marks[0][1], 2),
        "phase_cpu_s": {name: round(after - before, 2) for (name, before), (_, after) in pairwise(marks)},
        "largest_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "found": dict(sorted(Counter(r.probe for r in results if r.outcome.value == "reproduced").items())),
        "torch_imported": "torch" in sys.modules,
    }


def parse_alone(folder: Path) -> float:
    """Processor seconds of `ast.parse` of every file and of nothing else: what any reader of source pays."""
    gc.disable()
    started = time.process_time()
    for path in folder.rglob("*.py"):
        # A file that does not parse is counted by the probes' own row.
        with contextlib.suppress(SyntaxError, ValueError), warnings.catch_warnings(action="ignore"):
            ast.parse(path.read_bytes())
    return round(time.process_time() - started, 2)


def in_child(folder: Path) -> dict[str, Any]:
    """`read_once` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.source_probes", "--read", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def measure() -> dict[str, Any]:
    """Every figure of the page."""
    read = []
    with tempfile.TemporaryDirectory() as folder:
        write_checkout(Path(folder))
        read.append(
            {"checkout": f"{FILES:,} written files", "load_before": os.getloadavg()[0], **in_child(Path(folder))}
        )
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin:
        with tempfile.TemporaryDirectory() as folder:
            # A link is read as the folder that it leads to; an installed package itself lies in a foreign one.
            (Path(folder) / "torch").mkdir()
            subprocess.run(["cp", "-r", f"{Path(found.origin).parent}/.", f"{folder}/torch"], check=True)
            name = f"torch {importlib.metadata.version('torch')}"
            read.append({"checkout": name, "load_before": os.getloadavg()[0], **in_child(Path(folder))})
    machine = {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()}
    return {"machine": machine, "rows": read}


def blocks(results: dict[str, Any]) -> dict[str, str]:
    """The marked blocks of docs/evidence/source-probes.md."""
    machine, read = results["machine"], results["rows"]
    columns = ("checkout", "files", "lines", "cpu s", "to `ast.parse` alone", "wall s", "load before", "largest MB",
               "not parsed", "findings")  # fmt: skip
    phases = [(phase, *(row["phase_cpu_s"].get(phase, "") for row in read)) for phase in read[0]["phase_cpu_s"]]
    where = f"{machine['cpus']} cores, Python {machine['python']}"
    return {
        "environment": f"{where}, one process, no GPU; torch is not imported.",
        "checkouts": rows(columns, map(_cells, read)),
        "phases": rows(("processor s", *(row["checkout"] for row in read)), phases),
    }


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    ratio = f"{row['cpu_s'] / row['parse_alone_cpu_s']:.1f}x of {row['parse_alone_cpu_s']}"
    taken = (row["cpu_s"], ratio, row["wall_s"], f"{row['load_before']:.1f}", f"{row['largest_bytes'] / 1e6:.0f}")
    found = f"{sum(row['found'].values()):,}"
    return (row["checkout"], f"{row['files']:,}", f"{row['lines']:,}", *taken, row["not_parsed"], found)


def main() -> None:
    """Measure, unless only the page is asked for, and write it."""
    if "--read" in sys.argv:
        folder = Path(sys.argv[-1])
        print(json.dumps({**read_once(folder), "parse_alone_cpu_s": parse_alone(folder)}))
        return
    if "--page" not in sys.argv:
        store_results("source_probes", measure())
    print(write_blocks("source-probes", blocks(results_of("source_probes"))))


if __name__ == "__main__":
    main()
