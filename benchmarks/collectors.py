"""The collectors against torch, a pure read, and the versions that finding tickets are about.

    python -m benchmarks.collectors            # CPU, one thread; about 3 minutes
    python -m benchmarks.collectors --page     # only the page, from the stored figures

Writes benchmarks/results/collectors_cpu.json and the page. Every turn runs each collector once, one
after the other, so that a ratio compares what ran side by side. Times are processor seconds on one thread.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from auditkit.collectors import collect_gradients
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure.memory import peak_bytes, python_peak_bytes
from auditkit.worker.measure.syncs import count_launches, count_syncs
from auditkit.worker.simulated.tensor import to_simulated
from benchmarks.evidence import ROOT, results_of, rows, store_results, write_blocks
from benchmarks.machine import environment
from benchmarks.rival_collectors import BASELINE, COLLECTORS, OURS, Collector, gpt2_shapes

NAME = "collectors_cpu"
TURNS, SLOW_TURNS = 21, 2
SLOW_S = 0.25
"""A collector that takes longer has SLOW_TURNS."""
MINIMUM_S = 0.02
"""A shorter collector is called several times in each turn: the clock counts steps of about a millisecond."""
SHAPES: dict[str, Callable[[], list[tuple[int, ...]]]] = {
    "GPT-2 small: 148 tensors, 124M": gpt2_shapes,
    "1000 x 100K": lambda: [(100_000,)] * 1000,
    "1000 x 1000": lambda: [(1000,)] * 1000,
    "1 x 100M": lambda: [(100_000_000,)],
}


def gradients_of(shapes: Sequence[tuple[int, ...]], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return normal values of deviation 1e-3, as gradients have, from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    return [torch.empty(shape).normal_(0, 1e-3, generator=generator).to(dtype) for shape in shapes]


def seconds_of(call: Callable[[], object], repeats: int) -> float:
    """Return the processor seconds of one of `repeats` calls."""
    started = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - started) / repeats


def interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the seconds of each call in each turn."""
    repeats = {name: max(1, math.ceil(MINIMUM_S / max(seconds_of(call, 1), 1e-6))) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS):
        for name, call in calls.items():
            if turn < SLOW_TURNS or statistics.median(seconds[name]) < SLOW_S:
                seconds[name].append(seconds_of(call, repeats[name]))
    return seconds


def timing(seconds: Sequence[float], baseline: Sequence[float]) -> dict[str, Any]:
    """Return median and quartiles in ms, and the median of the ratios within a turn."""
    quartiles = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [*seconds] * 3
    ratios = [mine / theirs for mine, theirs in zip(seconds, baseline, strict=False)]
    return {"ms": [round(each * 1e3, 4) for each in quartiles], "ratio": round(statistics.median(ratios), 2)}


def exact_norm(gradients: Sequence[Tensor]) -> float:
    """Return the norm from 80-bit sums of squares, pairwise: off by 1e-18 relative, the last rounding apart."""
    total = np.longdouble(0)
    for gradient in gradients:
        for piece in gradient.detach().view(-1).split(2**20):
            values = piece.double().numpy().astype(np.longdouble)
            total += np.add.reduce(values * values)
    return float(np.sqrt(total))


def case(shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """Return one table: every collector on the same gradients."""
    gradients, load = gradients_of(shapes), os.getloadavg()[0]
    expected = exact_norm(gradients)
    seconds = interleaved({name: _bound(collector, gradients) for name, collector in COLLECTORS.items()})
    found = {
        name: timing(seconds[name], seconds[BASELINE])
        | {"extra_bytes": extra_bytes(_bound(collector, gradients)), "error": _error(collector(gradients), expected)}
        for name, collector in COLLECTORS.items()
    }
    return {"load": [round(load, 2), round(os.getloadavg()[0], 2)], "rows": found}


def extra_bytes(call: Callable[[], object]) -> int:
    """Return the peak of torch's allocator events, and of NumPy's and Python's, added: an upper bound."""
    gc.collect()
    return peak_bytes(call, "cpu") + python_peak_bytes(call, "cpu")


def _error(measured: float | Sequence[Tensor] | None, expected: float) -> float | None:
    if measured is None:
        return None
    norm = measured if isinstance(measured, float) else math.hypot(*[float(norm) for norm in measured])
    return abs(norm - expected) / expected


def _bound(collector: Collector, gradients: Sequence[Tensor]) -> Callable[[], object]:
    return lambda: collector(gradients)


def hard_inputs() -> dict[str, Any]:
    """Return ours against the baseline on the shapes of GPT-2 small, with what takes the longer way."""
    found = {}
    for name, gradients in _hard_gradients():
        seconds = interleaved({key: _bound(COLLECTORS[key], gradients) for key in (OURS, BASELINE)})
        found[name] = timing(seconds[OURS], seconds[BASELINE]) | {"load": round(os.getloadavg()[0], 2)}
    return found


def _hard_gradients() -> Iterator[tuple[str, list[Tensor]]]:
    shapes = gpt2_shapes()
    gradients = gradients_of(shapes)
    yield "no zeros, NaN or inf", gradients
    generator = torch.Generator().manual_seed(1)
    for gradient in gradients:
        gradient[torch.rand(gradient.shape, generator=generator) < 0.1] = -0.0
    yield "one element in ten is zero", gradients
    gradients = gradients_of(shapes)
    for gradient in gradients:
        gradient.view(-1)[::10_000] = math.nan
    yield "NaN in every piece", gradients
    yield "NaN everywhere", [gradient.fill_(math.nan) for gradient in gradients]
    yield "every square underflows (1e-30)", [each.mul_(1e-27) for each in gradients_of(shapes)]
    yield "every square overflows (1e30)", [each.mul_(1e33) for each in gradients_of(shapes)]
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        yield f"{dtype} (against _foreach_norm of that type)", gradients_of(shapes, dtype)


def traffic() -> dict[str, Any]:
    """Return syncs and launches for 148 gradients of 64 elements on the simulated device."""
    gradients, roots = [to_simulated(torch.randn(64)) for _ in gpt2_shapes()], SourceRoots(str(ROOT))
    calls = {name: _bound(collector, gradients) for name, collector in COLLECTORS.items()}
    calls["auditkit.collectors, collect alone"] = lambda: collect_gradients(gradients)
    for call in calls.values():
        call()
    return {
        name: {
            "syncs": count_syncs(call, "simulated", roots).total,
            "launches": count_launches(call, "simulated", roots).total,
        }
        for name, call in calls.items()
    }


def blocks(stored: dict[str, Any]) -> dict[str, str]:
    """Return the marked blocks of the page."""
    where = stored["environment"]
    titles = ("collector", "ms", "quartiles", "ratio", "extra bytes", "relative error")
    tables = []
    for name, table in stored["cases"].items():
        heading = f"### {name}\n\nLoad average {table['load'][0]} to {table['load'][1]}.\n\n"
        tables.append(heading + rows(titles, (_row(title, row) for title, row in table["rows"].items())))
    hard = [(name, f"{row['ms'][1]:.1f}", row["ratio"], row["load"]) for name, row in stored["hard_inputs"].items()]
    counts = [(name, row["syncs"], row["launches"]) for name, row in stored["traffic"].items()]
    return {
        "environment": f"{where['device']}, {where['cores']} cores, 1 thread, Python {where['python']}, torch "
        f"{where['torch']}, NumPy {where['numpy']}; load average at the start {where['load_average'][0]}. Another "
        "process on the machine shares its caches and its memory: only ratios count.",
        "cases": "\n\n".join(tables),
        "hard": rows(("input", "ms", "ratio", "load"), hard),
        "traffic": rows(("collector", "syncs", "launches"), counts),
    }


def _row(name: str, row: dict[str, Any]) -> tuple[object, ...]:
    low, median, high = row["ms"]
    error = f"{row['error']:.1e}" if row["error"] is not None else ""
    return name, f"{median:.2f}", f"{low:.2f} to {high:.2f}", row["ratio"], f"{row['extra_bytes']:,}", error


def main() -> None:
    """Measure, unless only the page is asked for, and write it; the simulation slows what runs after it."""
    if "--page" not in sys.argv:
        torch.set_num_threads(1)
        cases = {name: case(make()) for name, make in SHAPES.items()}
        found = {"environment": environment("cpu", "numpy"), "cases": cases, "hard_inputs": hard_inputs()}
        store_results(NAME, found | {"traffic": traffic()})
    write_blocks("collectors", blocks(results_of(NAME)))


if __name__ == "__main__":
    main()
