"""On a machine with a GPU: `auditkit run` watches a training step there, and leaves the capture of a graph alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.project_files import auditkit

pytestmark = pytest.mark.gpu

PROGRAM = """
import sys
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
x, y = torch.randn(16, 64, device="cuda"), torch.randint(0, 4, (16,), device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    if sys.argv[1] == "reads":
        loss.item()
    optimizer.step()


side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.synchronize()
if sys.argv[1] == "graph":
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    graph.replay()
"""


@pytest.mark.parametrize("how", ["reads", "graph"])
def test_a_step_on_the_device_is_watched(tmp_path: Path, how: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    done = auditkit("run", "--", sys.executable, "train.py", how, cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "on cuda" in done.stderr
    assert "watched 3 of 3 steps" in done.stderr
    assert "ERROR" not in done.stderr
    assert "prototype feature" not in done.stderr
    assert ("waits 1 times for the GPU" in done.stderr) == (how == "reads")
