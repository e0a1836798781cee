"""Evidence from a GPU: does the simulation count what the device does, and which collectors are correct and fast there?

    python -m benchmarks.gpu                # on a machine with a CUDA device; some minutes
    python -m benchmarks.gpu --rehearse     # every line of it on the CPU, tiny: writes nothing

Writes benchmarks/results/gpu.json row by row, so that what was cut off is missing alone, and docs/evidence/gpu.md.
A row that raises is a row with its error. The tests for a GPU are `pytest -m gpu`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from auditkit.collectors import collect_gradients
from auditkit.config.config import read_config
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.base.refusals import TargetRaised
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from auditkit.worker.measure.memory import peak_bytes
from auditkit.worker.serve.loading import load, owner_class, use_import_roots
from benchmarks.evidence import ROOT, Document, rows, store_results, write_blocks
from benchmarks.machine import environment
from benchmarks.rival_collectors import BASELINE, COLLECTORS, OURS, gpt2_shapes

NAME = "gpu"
SPECIMEN = ROOT / "probes" / "specimens" / "gradient_monitoring"
OWN = ROOT / "auditkit" / "collectors"
FINISH = {"compute_total_norm": None, "collect_gradients": "PendingGradientStats.materialize"}
TENSORS, ELEMENTS = (3, 40), 64
LAUNCHES_PER_TENSOR = 0.1
"""Above this slope launches grow: CUDA packs about a hundred tensors into one foreach launch."""
OPERATORS, KERNELS = f'{OURS}, backend="torch"', f'{OURS}, backend="triton"'
TIMED: dict[str, Callable[[Sequence[Tensor]], object]] = {
    OPERATORS: lambda gradients: collect_gradients(gradients, backend="torch").materialize().total_norm,
    KERNELS: lambda gradients: collect_gradients(gradients, backend="triton").materialize().total_norm,
    BASELINE: COLLECTORS[BASELINE],
}
SHAPES = {"124M": gpt2_shapes(), "1B": [(10_000, 10_000)] * 10}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WARM_UPS, CALLS = 3, 20


def traffic(call: str, folder: Path, finish: str | None, request: Document, device: str) -> Document:
    """Count synchronizations and launches of one collector, simulated and on the device, with their lines."""
    function, (owner, method) = load(call, [str(folder)]), owner_class(call)
    caller = Caller(function, owner, method, {}, load(finish, [str(folder)]) if finish else None)
    plan, roots = find_plan(caller, request), SourceRoots(str(folder))
    found: dict[str, list[Document]] = {
        kind: [_counted(Context(plan, caller, kind, roots, {}), tensors) for tensors in TENSORS]
        for kind in ("simulated", device)
    }
    sides = list(found.values())
    slopes = [(side[1]["launches"] - side[0]["launches"]) / (TENSORS[1] - TENSORS[0]) for side in sides]
    same_syncs = all(one["syncs"] == other["syncs"] for one, other in zip(*sides, strict=True))
    grows = [slope > LAUNCHES_PER_TENSOR for slope in slopes]
    return {"agrees": same_syncs and grows[0] == grows[1], "counts": found}


def _counted(context: Context, tensors: int) -> Document:
    """Return the launches, and the synchronizations by line; what a target raises stands for a line."""
    try:
        syncs = context.syncs(context.gradients(tensors, ELEMENTS))
        launches = context.launches(context.gradients(tensors, ELEMENTS)).total
    except TargetRaised as error:
        return {"syncs": {str(error): 1}, "launches": 0}
    lines = Counter("elsewhere" if site is None else f"{site.file}:{site.line}" for site in syncs.sites)
    return {"syncs": dict(sorted(lines.items())), "launches": launches}


def gradients_of(shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, device: str) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.empty(shape, dtype=dtype, device=device).normal_(0, 1e-3) for shape in shapes]


def speed(name: str, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, device: str) -> Document:
    """Return the milliseconds of a call, its extra bytes, and how far its norm is from that in float64."""
    gradients = gradients_of(shapes, dtype, device)
    call, read_bytes = TIMED[name], sum(each.numel() * each.element_size() for each in gradients)
    for _ in range(WARM_UPS):
        norm = call(gradients)
    seconds = []
    for _ in range(CALLS):
        _wait(device)
        started = time.perf_counter()
        call(gradients)
        _wait(device)
        seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    found = {"ms": median * 1e3, "GB_per_s": read_bytes / median / 1e9}
    found["extra_bytes"] = peak_bytes(lambda: call(gradients), device)
    if isinstance(norm, float):
        exact = float(torch.stack([each.double().norm() for each in gradients]).norm())
        found["relative_error"] = abs(norm - exact) / exact
    return found


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measurements(device: str, is_rehearsal: bool) -> Iterator[tuple[str, Callable[[], Document]]]:
    """Yield every row of the page, the most valuable first."""
    use_import_roots([str(SPECIMEN)])
    for name, finish in FINISH.items():
        end = f"auditkit.collectors:{finish}" if finish else None
        yield f"traffic {name}", lambda name=name, end=end: traffic(f"auditkit.collectors:{name}", OWN, end, {}, device)
    for target in read_config(SPECIMEN / "auditkit.yaml").targets[: 2 if is_rehearsal else None]:
        yield (f"traffic {target.call}",
               lambda it=target: traffic(it.call, SPECIMEN, it.finish, it.to_json(), device))  # fmt: skip
    for model, shapes in SHAPES.items():
        used = [tuple(min(size, 6) for size in shape) for shape in shapes] if is_rehearsal else shapes
        for dtype in DTYPES:
            for name in TIMED:
                yield (f"speed {model} {dtype}: {name}",
                       lambda n=name, s=used, d=dtype: speed(n, s, DTYPES[d], device))  # fmt: skip


def blocks(stored: Document) -> dict[str, str]:
    """Return the marked blocks of the page."""
    found: dict[str, Document] = stored["rows"]
    counted = {name: row for name, row in found.items() if name.startswith("traffic ")}
    differing = [f"- `{name}`: {row.get('error') or row['counts']}" for name, row in counted.items()
                 if not row.get("agrees")]  # fmt: skip
    agreeing = len(counted) - len(differing)
    timed = ((name.removeprefix("speed "), *_cells(row)) for name, row in found.items() if name.startswith("speed "))
    where = stored["environment"]
    return {
        "environment": f"{where['device']}, torch {where['torch']}, Python {where['python']}.",
        "traffic": "\n".join([f"{agreeing} of {len(counted)} collectors agree.", *differing]),
        "speed": rows(("gradients and collector", "ms", "GB/s", "extra bytes", "relative error"), timed),
    }


def _cells(row: Document) -> tuple[str, ...]:
    if "error" in row:
        return (row["error"].replace("|", "\\|"), "", "", "")
    error = f"{row['relative_error']:.1e}" if "relative_error" in row else ""
    return f"{row['ms']:.3f}", f"{row['GB_per_s']:.0f}", f"{row['extra_bytes']:,}", error


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure every row and write the page; return what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, tiny, without writing")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own start and stop lines
    is_rehearsal = parser.parse_args(words).rehearse
    device = "cpu" if is_rehearsal else "cuda"
    stored: dict[str, Any] = {"environment": environment(device), "rows": {}}
    for name, measure in measurements(device, is_rehearsal):
        try:
            stored["rows"][name] = measure()
        except Exception as error:
            stored["rows"][name] = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        print(name, stored["rows"][name].get("error", ""), flush=True)
        if not is_rehearsal:
            store_results(NAME, stored)
    written = blocks(stored)
    if not is_rehearsal:
        write_blocks(NAME, written)
    return {**stored, "blocks": written}


if __name__ == "__main__":
    main()
