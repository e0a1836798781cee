"""The example of examples/ runs as documented, by itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[1]


def run_example(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "train_with_statistics.py"), "--threads", "1", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_training_example_logs_statistics_and_their_cost(tmp_path: Path) -> None:
    """Every logged step shows finite norms of a loss that falls; the cost of a step is a number with and without."""
    run = run_example("--steps", "12", "--log-every", "4", "--json", str(tmp_path / "cost.json"))
    assert run.returncode == 0, run.stderr
    logged = [line.split() for line in run.stdout.splitlines() if line.startswith("step")]
    assert [int(words[1]) for words in logged] == [0, 4, 8]
    losses = [float(words[3]) for words in logged]
    assert losses[-1] < losses[0]
    assert all(0 < float(words[5]) < 100 and words[-1] == "1.00" for words in logged)
    (cost,) = json.loads((tmp_path / "cost.json").read_text())["runs"]
    assert (cost["device"], cost["parameters"], cost["tensors"]) == ("cpu", 804_621, 52)
    assert cost["plain_ms"] > cost["alone_ms"] > 0
