"""The collectors against torch, a pure read, and the versions that finding tickets are about.

    python benchmarks/collectors.py                  # CPU, one thread; about 3 minutes
    python benchmarks/collectors.py --device cuda    # the same rows on a GPU
    python benchmarks/collectors.py --large          # one gradient of 1e9 elements, added to the results: 4 GB and more
    python benchmarks/collectors.py --ours           # ours, the baseline and a pure read again; other rows are kept
    python benchmarks/collectors.py --ours "1000 x 1000"    # of one case alone
    python benchmarks/collectors.py --page           # only rewrite the page from the results

Writes benchmarks/results/collectors_DEVICE.json, and docs/evidence/collectors.md.
A collector that would need more memory than there is says so in its row.
Every turn runs each collector once, one after the other, so that a ratio compares what ran side by side. Times on
the CPU are processor seconds of this process, on one thread; on a GPU, wall seconds until the device is done.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from collectors_page import write_page
from evidence import ROOT, results_of, store_results
from machine import environment
from rival_collectors import BASELINE, COLLECTORS, OURS, PURE_READ, Collector, gpt2_shapes
from torch import Tensor

from auditkit.collectors import collect_gradients
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure.memory import peak_bytes, python_peak_bytes
from auditkit.worker.measure.syncs import count_launches, count_syncs
from auditkit.worker.simulated.tensor import to_simulated

ROOTS = SourceRoots(str(ROOT))
TURNS = 5
SLOW_TURNS = 2
"""Of a collector whose first turn takes longer than SLOW_S."""
SLOW_S = 0.25
MINIMUM_S = 0.02
"""A shorter collector is called several times in each turn: the clock counts steps of about a millisecond."""
SPARE_BYTES = 4 * 2**30
"""Left to others where a collector's memory is large."""
GROWTH = (OURS, BASELINE, "B7-PT-03 original: torch.cat, counts only", "B7-PT-01 fix: copies in float64")


SHAPES: dict[str, Callable[[], list[tuple[int, ...]]]] = {
    "GPT-2 small: 148 tensors, 124M": gpt2_shapes,
    "1000 x 100K": lambda: [(100_000,)] * 1000,
    "1000 x 1000": lambda: [(1000,)] * 1000,
    "1 x 100M": lambda: [(100_000_000,)],
}
LARGE, TENTH_OF_IT = "1 x 1B", "1 x 100M"


def gradients_of(shapes: Sequence[tuple[int, ...]], device: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Normal values of deviation 1e-3, as gradients have, from a fixed seed."""
    generator = torch.Generator(device).manual_seed(0)
    return [
        torch.empty(shape, dtype=torch.float32, device=device).normal_(0, 1e-3, generator=generator).to(dtype)
        for shape in shapes
    ]


def seconds_of(call: Callable[[], object], device: str, repeats: int) -> float:
    """Seconds of one of `repeats` calls."""
    if device == "cuda":
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - started) / repeats
    started = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - started) / repeats


def interleaved(calls: dict[str, Callable[[], object]], device: str, turns: int = TURNS) -> dict[str, list[float]]:
    """Seconds of each call in each turn; slow ones are left out of the later turns."""
    repeats = {}
    for name, call in calls.items():
        first = seconds_of(call, device, 1)
        repeats[name] = max(1, math.ceil(MINIMUM_S / max(first, 1e-6)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns):
        for name, call in calls.items():
            if turn < SLOW_TURNS or statistics.median(seconds[name]) < SLOW_S:
                seconds[name].append(seconds_of(call, device, repeats[name]))
    return seconds


def timing(seconds: Sequence[float], baseline: Sequence[float]) -> dict[str, Any]:
    """Median and quartiles in ms, and the median of the ratios within a turn."""
    quartiles = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [*seconds] * 3
    ratios = [mine / theirs for mine, theirs in zip(seconds, baseline, strict=False)]
    return {
        "ms": [round(quartile * 1e3, 4) for quartile in quartiles],
        "ratio": round(statistics.median(ratios), 2),
        "turns": len(seconds),
    }


def extra_bytes(call: Callable[[], object], device: str) -> int:
    """Peak of torch's allocator events, and of NumPy's and Python's by tracemalloc, added: an upper bound."""
    gc.collect()
    return peak_bytes(call, device) + (python_peak_bytes(call, device) if device == "cpu" else 0)


def exact_norm(gradients: Sequence[Tensor]) -> float:
    """The norm from 80-bit sums of squares, pairwise: off by 1e-18 relative, the last rounding apart."""
    total = np.longdouble(0)
    for gradient in gradients:
        for piece in gradient.detach().view(-1).split(2**20):
            values = piece.cpu().double().numpy().astype(np.longdouble)
            total += np.add.reduce(values * values)
    return float(np.sqrt(total))


def available_bytes(device: str) -> int:
    """Memory that a process could still take."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0]
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def case(
    shapes: Sequence[tuple[int, ...]],
    device: str,
    tenth: dict[str, Any] | None = None,
    collectors: dict[str, Collector] = COLLECTORS,
) -> dict[str, Any]:
    """One table: every collector on the same gradients.

    `tenth`, the table of a tenth of the elements, says what does not fit into memory, and what is called only once.
    """
    gradients = gradients_of(shapes, device)
    element_count = sum(gradient.numel() for gradient in gradients)
    print(f"{len(gradients)} gradients, {element_count:,} elements", file=sys.stderr)
    expected = exact_norm(gradients)
    load = os.getloadavg()[0]
    rows = _rows_that_do_not_fit(tenth["rows"], device) if tenth else {}
    slow = {name for name, row in tenth["rows"].items() if row["ms"][1] > SLOW_S * 1e3} if tenth else set()
    often = {name: collector for name, collector in collectors.items() if name not in rows and name not in slow}
    seconds = interleaved({name: _bound(collector, gradients) for name, collector in often.items()}, device)
    for name, collector in often.items():
        rows[name] = timing(seconds[name], seconds[BASELINE]) | {
            "extra_bytes": extra_bytes(_bound(collector, gradients), device),
            "error": _error(collector(gradients), expected),
        }
    for name in slow - set(rows):
        rows[name] = _one_call(COLLECTORS[name], gradients, expected, seconds[BASELINE], device)
    return {
        "tensors": len(gradients),
        "elements": element_count,
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "rows": {name: rows[name] for name in collectors},
    }


def _rows_that_do_not_fit(tenth_rows: dict[str, Any], device: str) -> dict[str, dict[str, Any]]:
    available = available_bytes(device) - SPARE_BYTES
    needed = {name: 10 * row["extra_bytes"] for name, row in tenth_rows.items()}
    return {name: {"needed_bytes": n, "available_bytes": available} for name, n in needed.items() if n > available}


def _one_call(
    collector: Collector, gradients: Sequence[Tensor], expected: float, baseline: Sequence[float], device: str
) -> dict[str, Any]:
    """A row from one call, for its time, its memory in torch's allocator, and its answer."""
    answers: list[Any] = []
    seconds: list[float] = []
    peak = peak_bytes(
        lambda: seconds.append(seconds_of(lambda: answers.append(collector(gradients)), device, 1)), device
    )
    return timing(seconds, baseline) | {"extra_bytes": peak, "error": _error(answers[0], expected)}


def _error(measured: float | Sequence[Tensor] | None, expected: float) -> float | None:
    if measured is None:
        return None
    norm = measured if isinstance(measured, float) else math.hypot(*[float(norm) for norm in measured])
    return abs(norm - expected) / expected


def _bound(collector: Collector, gradients: Sequence[Tensor]) -> Callable[[], object]:
    return lambda: collector(gradients)


def hard_inputs(device: str) -> dict[str, Any]:
    """Ours and the baseline on the shapes of GPT-2 small, with what takes the longer way."""
    rows = {}
    for name, gradients in _hard_gradients(device):
        calls = {key: _bound(COLLECTORS[key], gradients) for key in (OURS, BASELINE)}
        load = os.getloadavg()[0]
        seconds = interleaved(calls, device)
        rows[name] = timing(seconds[OURS], seconds[BASELINE]) | {"load": round(load, 2)}
    return rows


def _hard_gradients(device: str) -> Iterator[tuple[str, list[Tensor]]]:
    """Inputs one at a time: each has the memory of the whole model."""
    shapes = gpt2_shapes()
    gradients = gradients_of(shapes, device)
    for gradient in gradients:
        gradient.view(-1)[::10_000] = math.nan
    yield "NaN in every piece", gradients
    yield "NaN everywhere", [gradient.fill_(math.nan) for gradient in gradients]
    yield "every square underflows (1e-30)", [g.mul_(1e-27) for g in gradients_of(shapes, device)]
    yield "every square overflows (1e30)", [g.mul_(1e33) for g in gradients_of(shapes, device)]
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        yield f"{dtype} (against _foreach_norm of that type)", gradients_of(shapes, device, dtype)


def traffic(device: str) -> dict[str, Any]:
    """Syncs and launches for 148 gradients of 64 elements; without a GPU, on the simulated device."""
    instrument = "cuda" if device == "cuda" else "simulated"
    values = [torch.randn(64) for _ in gpt2_shapes()]
    gradients = [value.cuda() if device == "cuda" else to_simulated(value) for value in values]
    calls = {name: _bound(collector, gradients) for name, collector in COLLECTORS.items()}
    calls["auditkit.collectors, collect alone"] = lambda: collect_gradients(gradients)
    for call in calls.values():
        call()
    return {
        name: {
            "syncs": count_syncs(call, instrument, ROOTS).total,
            "launches": count_launches(call, instrument, ROOTS).total,
        }
        for name, call in calls.items()
    }


def growth(device: str, names: Sequence[str] = GROWTH) -> dict[str, list[dict[str, Any]]]:
    """Time and peak memory of four collectors: one gradient of n elements, n gradients of 1000 elements."""
    sizes: dict[str, list[list[tuple[int, ...]]]] = {
        "parameters": [[(10**power,)] for power in range(3, 9)],
        "tensors": [[(1000,)] * 10**power for power in range(5)],
    }
    return {
        axis: [_growth_point(number, shapes, device, names) for number, shapes in _numbered(axis, cases)]
        for axis, cases in sizes.items()
    }


def _numbered(axis: str, cases: list[list[tuple[int, ...]]]) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    for shapes in cases:
        yield (shapes[0][0] if axis == "parameters" else len(shapes)), shapes


def _growth_point(number: int, shapes: list[tuple[int, ...]], device: str, names: Sequence[str]) -> dict[str, Any]:
    gradients = gradients_of(shapes, device)
    calls = {name: _bound(COLLECTORS[name], gradients) for name in names}
    seconds = interleaved(calls, device, 3)
    return {
        "n": number,
        "ms": {name: statistics.median(seconds[name]) * 1e3 for name in names},
        "extra_bytes": {name: extra_bytes(call, device) for name, call in calls.items()},
    }


def measure(device: str, before: dict[str, Any]) -> dict[str, Any]:
    """Every figure of one device; the traffic last: the simulation slows what runs after it."""
    large = {LARGE: before["cases"][LARGE]} if LARGE in before.get("cases", {}) else {}
    return {
        "environment": environment(device, "numpy"),
        "cases": {name: case(make(), device) for name, make in SHAPES.items()} | large,
        "hard_inputs": hard_inputs(device),
        "growth": growth(device),
        "traffic": traffic(device),
    }


def with_large(device: str, before: dict[str, Any]) -> dict[str, Any]:
    """The figures of before, with those of one gradient of 1e9 elements."""
    found = case([(1_000_000_000,)], device, before["cases"][TENTH_OF_IT])
    large = found | {"environment": environment(device, "numpy")}
    return before | {"cases": before["cases"] | {LARGE: large}}


def with_ours(device: str, before: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The figures of before, with our rows, the baseline's and the pure read's measured again, in turns.

    Ratios are taken within a turn, so that the other rows' hold; `kept_from` is the environment of those. Of some
    cases alone, the rest is kept as it is.
    """
    again = {name: COLLECTORS[name] for name in (OURS, BASELINE, PURE_READ)}
    kept_from = before.get("kept_from", before["environment"])
    cases = {}
    for name in names:
        found, old = case(SHAPES[name](), device, collectors=again), before["cases"][name]
        cases[name] = found | {"rows": old["rows"] | found["rows"], "kept_load": old.get("kept_load", old["load"])}
    if len(names) < len(SHAPES):
        return before | {"cases": before["cases"] | cases}
    points = growth(device, (OURS, BASELINE))
    for axis, old_points in before["growth"].items():
        for point, old_point in zip(points[axis], old_points, strict=True):
            for key in ("ms", "extra_bytes"):
                point[key] = old_point[key] | point[key]
    kept = {"environment": environment(device, "numpy"), "kept_from": kept_from, "cases": before["cases"] | cases}
    return before | kept | {"hard_inputs": hard_inputs(device), "growth": points}


def main() -> None:
    """Measure, unless only the page is asked for, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--ours", nargs="*", choices=SHAPES, metavar="CASE")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if not options.page:
        torch.set_num_threads(1)
        name = f"collectors_{options.device}"
        before = results_of(name)
        again = options.ours is not None
        if (options.large or again) and not before:
            parser.error(f"--large and --ours add to {name}.json, which is not there; run without them first")
        if again:
            results = with_ours(options.device, before, options.ours or list(SHAPES))
        else:
            results = (with_large if options.large else measure)(options.device, before)
        store_results(name, results)
    print(write_page())


if __name__ == "__main__":
    main()
