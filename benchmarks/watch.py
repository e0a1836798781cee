"""What `auditkit run` costs: CPU time of watched steps beside plain ones, as neighbouring pairs in one process.

python -m benchmarks.watch [--pairs 40]
python -m benchmarks.watch [--pairs 3] --program main.py --epochs 1
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import json
import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from auditkit.live.recorded import find_candidates
from auditkit.worker.watch.process import _INTERVAL_S, _SHARE, Process

_LIMITS = {"inspected step": 1.9, "other step": 1.01, "run of 30 steps": 1.2, "run of 5,000 steps (computed)": 1.03}
_FIRST, _EVERY = 5, 50


def trainer(width: int = 1440, layers: int = 5, batch: int = 64) -> Callable[[int], None]:
    """Train a model of 10M parameters: `layers` linear layers, AdamW, a clip."""
    model = nn.Sequential(*(module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, y = torch.randn(batch, width), torch.randint(0, width, (batch,))

    def train(steps: int) -> None:
        for _ in range(steps):
            training_step(model, optimizer, x, y)

    return train


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    """One step, whose calls the recorder records."""
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def keep_memory() -> None:
    """Tell glibc to keep freed memory.

    Otherwise a step maps 0 to 28,000 pages anew (measured: up to half of its time), by how the heap happens to lie.
    """
    trim_threshold, mmap_threshold = -1, -3
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, (1 << 31) - 1)


def step_s(train: Callable[[int], None]) -> float:
    """The CPU time of one step."""
    began = time.process_time()
    train(1)
    return time.process_time() - began


def measure(pairs: int) -> dict[str, float]:
    """The median ratios of neighbouring steps; a null control compares plain steps with plain steps."""
    torch.set_num_threads(1)
    keep_memory()
    train = trainer()
    train(3)
    firsts, inspected, other, null, plain = [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(max(2, pairs // 10)):
            find_candidates(Path(folder), Path(__file__).parent)
            watched = Process(folder, {"every": 10**9})
            watched.watch()
            firsts.append(step_s(train))
            for _ in range(_FIRST - 1):
                inspected.append(_beside(train, watched, plain, null))
            train(1)
            for _ in range(10):
                other.append(_beside(train, watched, plain, null))
            watched.patches.remove()
            written = watched.wrote_s
    step, inspection, rest = statistics.median(plain), statistics.median(inspected), statistics.median(other)
    later = 5000 // _EVERY - 1
    writes = min(5000 * step / _INTERVAL_S, 5000 * step * _SHARE / written) * written / step
    ratios = {
        "null control (plain step)": statistics.median(null),
        "inspected step": inspection,
        "other step": rest,
        "run of 30 steps": (statistics.median(firsts) / step + 4 * inspection + 25 * rest) / 30,
        "run of 5,000 steps (computed)": ((6 + later) * inspection + (4994 - later) * rest + writes) / 5000,
    }
    return {name: round(ratio, 4) for name, ratio in ratios.items()}


def _beside(train: Callable[[int], None], watched: Process, plain: list[float], null: list[float]) -> float:
    """The time of a watched step over the mean of the plain ones before and after it, which are compared too."""
    before = _unwatched_s(train, watched)
    seen = step_s(train)
    after = _unwatched_s(train, watched)
    plain += [before, after]
    null.append(after / before)
    return 2 * seen / (before + after)


def _unwatched_s(train: Callable[[int], None], watched: Process) -> float:
    watched.patches.remove()
    watched.watcher.reading += 1  # the recorder's wrappers do nothing
    found = step_s(train)
    watched.watcher.reading -= 1
    watched.patches.install()
    return found


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
        with tempfile.TemporaryDirectory() as folder:
            watched = Process(folder, {"every": _EVERY})
            watched.watch()
            seen = run()
        steps = watched.watcher.turn
        watched.patches.remove()
        ratios.append(2 * seen / (plain + run()))
    return {f"program of {steps} steps": round(statistics.median(ratios), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--program", nargs=argparse.REMAINDER, metavar="FILE", help="measure this program instead")
    asked = parser.parse_args()
    if asked.program:
        print(json.dumps(measure_program(asked.pairs, asked.program[0], asked.program[1:])))
        return
    found = measure(asked.pairs)
    for name, ratio in found.items():
        print(f"{name}: {ratio}" + (f" (at most {_LIMITS[name]})" if name in _LIMITS else ""))
    print(json.dumps({"torch": torch.__version__, "threads": 1, "ratios": found}))


if __name__ == "__main__":
    main()
