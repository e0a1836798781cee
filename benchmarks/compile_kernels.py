"""Compiles the kernels of `auditkit.collectors` for sm_90 without a GPU, and notes what came out.

    python -m benchmarks.compile_kernels

Needs the package triton, whose wheel holds the assembler and the disassembler. Writes
benchmarks/results/collectors_kernels.json and docs/evidence/collectors-kernels.md.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tests.collectors.compiled_kernels import compile_reduce, compile_scan

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "collectors_kernels.json"
PAGE = ROOT / "docs" / "evidence" / "collectors-kernels.md"
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def measure() -> dict[str, Any]:
    import triton

    kernels = [compiler(dtype, 90) for compiler in (compile_scan, compile_reduce) for dtype in DTYPES]
    return {
        "environment": {"triton": triton.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "target": "sm_90",
        "kernels": [
            asdict(kernel) | {"threads_on_a_multiprocessor": kernel.threads_on_a_multiprocessor} for kernel in kernels
        ],
    }


_HEADS = {
    "kernel": "kernel",
    "dtype": "dtype",
    "registers": "registers",
    "spill_loads": "spill loads",
    "spill_stores": "spill stores",
    "stack_bytes": "stack, bytes",
    "shared_bytes": "shared memory, bytes",
    "threads_on_a_multiprocessor": "threads on a multiprocessor",
    "wide_loads": "16-byte loads",
    "narrow_unmasked_loads": "narrower, unmasked",
    "narrow_masked_loads": "narrower, masked",
    "instructions": "instructions",
}


def page(results: dict[str, Any]) -> str:
    environment = results["environment"]
    rows = [[f"`{row[name]}`" if name == "kernel" else str(row[name]) for name in _HEADS] for row in results["kernels"]]
    table = [list(_HEADS.values()), ["---"] * len(_HEADS), *rows]
    lines = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    return f"""\
# The collectors' kernels, compiled without a GPU

Written by `python -m benchmarks.compile_kernels`: Triton {environment["triton"]}, torch {environment["torch"]}, Python
{environment["python"]}, target {results["target"]}. Nothing here was run on a GPU: no row is a time.

{lines}

Registers, stack, spills, 16-byte loads and instructions are of the machine code; the two kinds of narrower loads
are of the PTX, before the assembler unrolls loops.

- The two unmasked narrow loads of `measure_chunks` are a chunk's address and its count. Every other load without a
  mask is one of 16 bytes a thread: all of a chunk but a first and a last block that it fills in part.
- Nothing spills. Where the stack is not 0, the assembler reserves bytes that no instruction reads or writes.
- Threads on a multiprocessor are what the registers leave of 2048. Two loads of 16 bytes each are in flight in a
  thread before the first use: 1,024 threads are 32 KiB. At 4.8 TB/s and 132 multiprocessors, an assumed latency
  of 0.8 us asks for 29 kB each.
"""


def main() -> None:
    results = measure()
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")
    print(page(results))


if __name__ == "__main__":
    main()
