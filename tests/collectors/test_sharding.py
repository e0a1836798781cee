"""DTensor gradients have the statistics of the whole gradient on every rank, and replicas reach their owner."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).with_name("sharded_ranks.py")
ROOT = SCRIPT.parents[2]


@pytest.mark.acceptance
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed")
def test_two_ranks_report_the_whole_gradients(tmp_path: Path) -> None:
    """Shard adds over the mesh, Replicate does not, Partial is reduced first; both passes, two gloo ranks."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), "2", str(tmp_path / "rendezvous")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(outputs)
