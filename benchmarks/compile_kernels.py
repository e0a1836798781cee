"""Compiles the kernels of `auditkit.collectors` for sm_90 without a GPU, and notes what came out.

    python -m benchmarks.compile_kernels

Needs the package triton, whose wheel holds the assembler and the disassembler. Writes
benchmarks/results/collectors_kernels.json and docs/evidence/collectors-kernels.md.
"""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

import torch

from benchmarks.evidence import rows, store_results, write_blocks
from tests.collectors.compiled_kernels import compile_reduce, compile_scan

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


def blocks(results: dict[str, Any]) -> dict[str, str]:
    """The marked blocks of docs/evidence/collectors-kernels.md."""
    environment = results["environment"]
    kernels = [row | {"kernel": f"`{row['kernel']}`"} for row in results["kernels"]]
    return {
        "environment": f"Triton {environment['triton']}, torch {environment['torch']}, Python {environment['python']}, "
        f"target {results['target']}. Nothing here was run on a GPU: no row is a time.",
        "kernels": rows(_HEADS.values(), ([kernel[name] for name in _HEADS] for kernel in kernels)),
    }


def main() -> None:
    results = measure()
    store_results("collectors_kernels", results)
    print(write_blocks("collectors-kernels", blocks(results)))


if __name__ == "__main__":
    main()
