"""The Triton pass without a GPU: its kernels interpreted and compiled, its chunks, and when it is chosen."""

import importlib.util
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from auditkit.collectors import collect_dual_gradients, collect_gradients
from auditkit.collectors.triton_pass import ALIGNMENT_BYTES, CHUNK_ELEMENTS, cut_into_chunks, runs_on_triton
from tests.collectors.pretend_cuda import PretendCuda

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[2]
# The two left out take as long as all others together, and add scales and sizes to what those cover.
SELECTION = "triton and not homogeneous and not many_pieces"
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def triton_version() -> tuple[int, ...]:
    from importlib.metadata import version

    return tuple(int(part) for part in version("triton").split(".")[:2])


@needs_triton
def test_the_kernels_in_the_interpreter(tmp_path: Path) -> None:
    """Every promise of the passes, kept by the kernels; no test of the other file is skipped."""
    if triton_version() < (3, 7):
        pytest.skip("the interpreter of Triton below 3.7 cannot read numpy 2.4's arrays")
    command = [sys.executable, "-m", "pytest", "-q", "-k", SELECTION, "-p", "no:cacheprovider", "--basetemp", tmp_path]
    # The interpreter computes in numpy, which warns where a GPU overflows in silence.
    command += ["-W", "ignore::RuntimeWarning", "tests/collectors/interpreted_kernels.py"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_kernels_compile_without_a_gpu(dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For sm_90: nothing spills, and what is not masked is loaded 16 bytes a thread.

    Triton 3.9 spills up to 6 values of 16-bit kernels; the one of the constraints file spills none.
    """
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from tests.collectors.compiled_kernels import compile_scan

    compiled = compile_scan(dtype, capability=90)
    assert max(compiled.spill_loads, compiled.spill_stores) <= (6 if triton_version() >= (3, 9) else 0)
    assert compiled.wide_loads >= 2
    assert compiled.narrow_unmasked_loads == 2  # a chunk's address and count


@needs_triton
def test_what_spills_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: blocks too large for the registers of their threads."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from tests.collectors.compiled_kernels import compile_scan

    spilling = compile_scan(torch.float64, capability=90, BLOCK=8192, num_warps=4)
    assert spilling.spill_loads > 0
    assert spilling.spill_stores > 0


@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3 * CHUNK_ELEMENTS + 9)), min_size=1, max_size=6),
    st.sampled_from([2, 4, 8]),
)
def test_chunks_cover_every_element_once(tensors: list[tuple[int, int]], element_bytes: int) -> None:
    """In order, at most CHUNK_ELEMENTS from a boundary on, and all but the first begin at a boundary."""
    addresses = [4096 + 2**30 * n + offset * element_bytes for n, (offset, _) in enumerate(tensors)]
    counts = [count for _, count in tensors]
    pointers, chunk_counts, starts = cut_into_chunks(addresses, counts, element_bytes)
    assert starts[-1] == len(pointers) == len(chunk_counts)
    for address, count, (start, stop) in zip(addresses, counts, pairwise(starts), strict=True):
        at = address
        for index in range(start, stop):
            head = pointers[index] % ALIGNMENT_BYTES // element_bytes
            assert pointers[index] == at
            assert 0 < chunk_counts[index] <= CHUNK_ELEMENTS - head
            assert index == start or head == 0
            at += int(chunk_counts[index]) * element_bytes
        assert at == address + count * element_bytes


def test_the_pass_is_for_cuda_memory_only() -> None:
    """Not for the CPU, and not for tensors that only say they are on a device."""
    assert not runs_on_triton([torch.ones(3)])
    assert not runs_on_triton([PretendCuda(torch.ones(3))])


def test_another_backend_is_refused() -> None:
    for collect in (collect_gradients, lambda source, backend: collect_dual_gradients(source, source, backend=backend)):
        with pytest.raises(ValueError, match="backend is 'cuda': expected 'torch' or 'triton'"):
            collect([torch.ones(3)], backend="cuda")  # type: ignore[operator]
    on_cpu = [collect_gradients([torch.ones(3)], backend=backend).materialize() for backend in ("torch", "triton")]
    assert on_cpu[0] == on_cpu[1]
