"""The kernels of `auditkit.collectors` compiled without a GPU, and what their machine code holds."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

import torch

# Of a multiprocessor of compute capability 9.0: CUDA C++ Programming Guide, Technical Specifications.
REGISTERS, THREADS, REGISTER_UNIT = 65536, 2048, 8

_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(@!?U?P\d+\s+)?([A-Z][A-Z0-9_.]+)", re.MULTILINE)
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")


@dataclass(frozen=True)
class Compiled:
    """One kernel for one dtype, as machine code. Loads count instructions, not executions."""

    kernel: str
    dtype: str
    threads: int
    registers: int
    stack_bytes: int
    shared_bytes: int
    spill_loads: int
    spill_stores: int
    instructions: int
    wide_loads: int  # 16 bytes a thread
    narrow_unmasked_loads: int
    narrow_masked_loads: int

    @property
    def threads_on_a_multiprocessor(self) -> int:
        per_thread = -(-self.registers // REGISTER_UNIT) * REGISTER_UNIT
        return min(REGISTERS // (per_thread * self.threads), THREADS // self.threads) * self.threads


def compile_scan(dtype: torch.dtype, capability: int, **changes: Any) -> Compiled:
    """Compile the kernel that reads the gradients, with `changes` to its options."""
    from auditkit.collectors import triton_kernels as kernels

    types = {"pointers_C": "*i64", "counts_C": "*i32", "cells_C": "*i32", "sums_SC": "*fp64", "C": "i32"}
    aligned = ("pointers_C", "cells_C", "sums_SC")
    return _compile(kernels.measure_chunks, dtype, types, aligned, kernels.scan_options(dtype) | changes, capability)


def compile_reduce(dtype: torch.dtype, capability: int) -> Compiled:
    """Compile the kernel that reduces the chunks of each gradient."""
    from auditkit.collectors import triton_kernels as kernels

    types = {"starts_T": "*i32", "cells_C": "*i32", "sums_SC": "*fp64", "record_KT": "*fp64", "C": "i32", "T": "i32"}
    aligned = ("cells_C", "sums_SC", "record_KT")
    return _compile(kernels.reduce_tensors, dtype, types, aligned, kernels.reduce_options(dtype), capability)


def _compile(
    kernel: Any,
    dtype: torch.dtype,
    types: dict[str, str],
    aligned: tuple[str, ...],
    options: dict[str, Any],
    capability: int,
) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    of_compiler = {name: options[name] for name in ("num_warps", "enable_fp_fusion")}
    constants = {name: value for name, value in options.items() if name not in of_compiler}
    signature = types | dict.fromkeys(constants, "constexpr")
    attributes = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(kernel, signature, constants, attributes)
    warps = options["num_warps"]
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=of_compiler)
    return _inspect(kernel.__name__, dtype, 32 * warps, compiled.asm["cubin"], compiled.asm["ptx"])


def _inspect(kernel: str, dtype: torch.dtype, threads: int, cubin: bytes, ptx: str) -> Compiled:
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = _USAGE.search(_output(knobs.nvidia.cuobjdump.path, "-res-usage", file.name))
        code = _output(knobs.nvidia.nvdisasm.path, "-c", file.name)
    assert usage is not None
    operations = [operation for _, operation in _INSTRUCTION.findall(code)]
    loads = re.findall(r"^\s*(@\S+ )?ld\.global(\S*)", ptx, re.MULTILINE)
    narrow = [predicate for predicate, form in loads if not _is_wide(form)]
    return Compiled(
        kernel=kernel,
        dtype=str(dtype).removeprefix("torch."),
        threads=threads,
        registers=int(usage[1]),
        stack_bytes=int(usage[2]),
        shared_bytes=int(usage[3]),
        spill_loads=sum(operation.startswith("LDL") for operation in operations),
        spill_stores=sum(operation.startswith("STL") for operation in operations),
        instructions=len(operations),
        wide_loads=sum(operation.startswith("LDG") and ".128" in operation for operation in operations),
        narrow_unmasked_loads=sum(not predicate for predicate in narrow),
        narrow_masked_loads=sum(bool(predicate) for predicate in narrow),
    )


def _is_wide(form: str) -> bool:
    """Whether `ld.global` of this form loads 16 bytes: a vector of n elements of m bits."""
    match = re.search(r"(?:\.v(\d))?\.[bfus](\d+)$", form)
    return match is not None and int(match[1] or 1) * int(match[2]) == 128


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
