"""What `auditkit run` costs: CPU time of watched steps beside plain ones, as neighbouring pairs in one process.

python -m benchmarks.watch [--pairs 7]
python -m benchmarks.watch [--pairs 3] --program main.py --epochs 1
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import runpy
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from auditkit.worker.watch.process import Process

_LIMITS = {"inspected step": 1.9, "other step": 1.01, "run of 30 steps": 1.2, "run of 5,000 steps (computed)": 1.03}
_FIRST, _EVERY = 5, 50


def trainer(width: int = 1440, layers: int = 5, batch: int = 64) -> Callable[[int], None]:
    """Train a model of 10M parameters: `layers` linear layers, AdamW, a clip."""
    model = nn.Sequential(*(module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, y = torch.randn(batch, width), torch.randint(0, width, (batch,))

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return train


def step_s(train: Callable[[int], None], steps: int) -> list[float]:
    """The CPU time of each step."""
    found = []
    for _ in range(steps):
        began = time.process_time()
        train(1)
        found.append(time.process_time() - began)
    return found


def measure(pairs: int) -> dict[str, float]:
    """The median ratio of watched to plain CPU time over all pairs."""
    torch.set_num_threads(1)
    train = trainer()
    train(3)
    ratios: dict[str, list[float]] = {name: [] for name in _LIMITS}
    for _ in range(pairs):
        before = step_s(train, 10)
        watched = Process("", {"every": 10**9})
        watched.watch()
        (first,) = step_s(train, 1)
        inspected = statistics.median(step_s(train, _FIRST - 1))
        other = statistics.median(step_s(train, 10))
        watched.patches.remove()
        plain = statistics.median(before + step_s(train, 10))
        ratios["inspected step"].append(inspected / plain)
        ratios["other step"].append(other / plain)
        ratios["run of 30 steps"].append((first + 4 * inspected + 25 * other) / (30 * plain))
        later = 5000 // _EVERY - 1
        total = first + (4 + later) * inspected + (4995 - later) * other
        ratios["run of 5,000 steps (computed)"].append(total / (5000 * plain))
    return {name: round(statistics.median(found), 3) for name, found in ratios.items()}


def measure_program(pairs: int, path: str, arguments: list[str]) -> dict[str, float]:
    """The median ratio for a whole program, which this process runs again and again; the first run warms up."""
    torch.set_num_threads(1)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))

    def run() -> float:
        began = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            runpy.run_path(path, run_name="__main__")
        return time.process_time() - began

    run()
    ratios = []
    for _ in range(pairs):
        plain = run()
        watched = Process("", {"every": _EVERY})
        watched.watch()
        seen = run()
        steps = watched.watcher.turn
        watched.patches.remove()
        ratios.append(2 * seen / (plain + run()))
    return {f"program of {steps} steps": round(statistics.median(ratios), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--program", nargs=argparse.REMAINDER, metavar="FILE", help="measure this program instead")
    asked = parser.parse_args()
    if asked.program:
        print(json.dumps(measure_program(asked.pairs, asked.program[0], asked.program[1:])))
        return
    found = measure(asked.pairs)
    for name, ratio in found.items():
        print(f"{name}: {ratio} (at most {_LIMITS[name]})")
    print(json.dumps({"torch": torch.__version__, "threads": 1, "ratios": found}))


if __name__ == "__main__":
    main()
