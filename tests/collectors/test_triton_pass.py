"""The Triton pass without a GPU: its kernels interpreted and compiled, its chunks, and when it is chosen."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from auditkit.collectors import collect_dual_gradients, collect_gradients
from auditkit.collectors.triton_pass import runs_on_triton
from auditkit.worker.simulated.device import simulated_cuda
from auditkit.worker.simulated.tensor import to_simulated

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[2]
# The kernels' own tests; the slow run adds what they share with the other passes, without the two whose scales and
# sizes take as long as all the rest together.
OWN, SHARED = "test_triton", "triton and not test_triton and not homogeneous and not many_pieces"
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def triton_version() -> tuple[int, ...]:
    from importlib.metadata import version

    return tuple(int(part) for part in version("triton").split(".")[:2])


@needs_triton
@pytest.mark.parametrize("selection", [OWN, pytest.param(SHARED, marks=pytest.mark.slow)])
def test_the_kernels_in_the_interpreter(selection: str, tmp_path: Path) -> None:
    """Every promise of the passes, kept by the kernels; no test of the other file is skipped."""
    if triton_version() < (3, 7):
        pytest.skip("the interpreter of Triton below 3.7 cannot read numpy 2.4's arrays")
    command = [sys.executable, "-m", "pytest", "-q", "-k", selection, "-p", "no:cacheprovider", "--basetemp", tmp_path]
    # The interpreter computes in numpy, which warns where a GPU overflows in silence.
    command += ["-W", "ignore::RuntimeWarning", "tests/collectors/interpreted_kernels.py"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_the_pass_is_for_cuda_memory_only() -> None:
    """Not for the CPU, and not for tensors that only say they are on a device."""
    assert not runs_on_triton([torch.ones(3)])
    with simulated_cuda():
        assert not runs_on_triton([to_simulated(torch.ones(3))])


def test_another_backend_is_refused() -> None:
    for collect in (collect_gradients, lambda source, backend: collect_dual_gradients(source, source, backend=backend)):
        with pytest.raises(ValueError, match="backend is 'cuda': expected 'auto', 'torch' or 'triton'"):
            collect([torch.ones(3)], backend="cuda")  # type: ignore[operator]
    on_cpu = [collect_gradients([torch.ones(3)], backend=backend).materialize() for backend in ("torch", "triton")]
    assert on_cpu[0] == on_cpu[1]
