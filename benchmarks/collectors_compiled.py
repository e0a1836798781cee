"""collect_gradients under torch.compile, against torch's own total norm compiled the same way.

    python benchmarks/collectors_compiled.py         # CPU, one thread, inductor: about 3 minutes
    python benchmarks/collectors_compiled.py --device cuda

Writes the table in docs/collectors.md. Every size is compiled without caches, each function in turn; a ratio is the
median over turns of calls that ran side by side, in processor seconds on the CPU.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from collectors import gradients_of, interleaved
from evidence import ROOT, fill, rows
from torch import Tensor

from auditkit.collectors import collect_gradients

TURNS = 21
SIZES = [(8, 100_000), (64, 100_000), (256, 100_000), (64, 10_000)]
PAGE = ROOT / "docs" / "collectors.md"


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    return collect_gradients(gradients).total_norm


FUNCTIONS: dict[str, Callable[[Sequence[Tensor]], object]] = {
    "torch": torch.nn.utils.get_total_norm,
    "collect_gradients": collect_gradients,
    "total_norm": total_norm,
}


def case(tensor_count: int, element_count: int, device: str) -> list[object]:
    """One row: seconds of compiling and times of a call, ours over torch's."""
    gradients = gradients_of([(element_count,)] * tensor_count, device)
    compile_s: dict[str, float] = {}
    calls: dict[str, Callable[[], object]] = {}
    for name, function in FUNCTIONS.items():
        torch.compiler.reset()
        started = time.perf_counter()
        torch.compile(function, fullgraph=True)(gradients)
        compile_s[name] = time.perf_counter() - started
    torch.compiler.reset()
    for name, function in FUNCTIONS.items():
        compiled = torch.compile(function, fullgraph=True)
        compiled(gradients)
        calls[name] = lambda compiled=compiled: compiled(gradients)
    seconds = interleaved(calls, device, TURNS)

    def ratio(name: str) -> str:
        return f"{statistics.median(a / b for a, b in zip(seconds[name], seconds['torch'], strict=True)):.1f}"

    torch_ms = f"{statistics.median(seconds['torch']) * 1e3:.2f}"
    compiling = [f"{compile_s[name]:.1f}" for name in FUNCTIONS]
    return [
        f"{tensor_count} x {element_count:,}",
        torch_ms,
        ratio("collect_gradients"),
        ratio("total_norm"),
        *compiling,
    ]


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    device = parser.parse_args().device
    torch.set_num_threads(1)
    torch._inductor.config.force_disable_caches = True
    torch.compile(torch.nn.utils.get_total_norm)([torch.ones(3, device=device)])  # builds the compiler's own headers
    titles = ["gradients", "torch, ms", "`collect_gradients`, times torch's", "`.total_norm`, times torch's"]
    titles += ["compiling torch's, s", "compiling `collect_gradients`, s", "compiling `.total_norm`, s"]
    table = rows(titles, [case(*size, device) for size in SIZES])
    where = f"torch {torch.__version__}, Python {platform.python_version()}, {device}, one thread, float32."
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), {"compiled": f"{table}\n\n{where}"}), encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
