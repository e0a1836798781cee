"""The CPU pass starts no threads."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, numpy, torch
from auditkit.collectors import collect_gradients
count = lambda: len(os.listdir("/proc/self/task"))
gradients = [torch.empty(30_000, dtype=dtype).fill_(1e-200) for dtype in (torch.float32, torch.float64)]
gradients += [torch.zeros(1).expand(300_000), torch.full((1,), torch.nan).expand(1000, 300)]
gradients += [torch.from_numpy(numpy.full(300_000, 0x3F80, numpy.int16)).view(torch.bfloat16)]
gradients += [torch.from_numpy(numpy.ones(300_000, dtype)) for dtype in ("float16", "float32", "float64")]
before = count()
collect_gradients(gradients).materialize()
assert count() == before, (before, count())
torch.zeros(10**6).mul(2)
print(count() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads by Linux's /proc")
def test_no_thread_starts() -> None:
    """A process that forks later, as a probe runner does, must have no OpenMP pool."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 0  # control: an ordinary operator starts one
