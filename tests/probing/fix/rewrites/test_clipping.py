"""Clipping functions rewritten: the exact text, and what they leave of gradients when they are run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.probing.fix.rewrites.rewrite import rewrites_of
from tests.probing.fix.rewrites.places import finding, place_of, text_with

SPARSE, DESTROYS = "fails_on_sparse_grads", "clip_destroys_gradients"

EACH = """import torch


def measure(parameters, clip):
    norms = []
    for p in parameters:
        if p.grad is not None:
            param_norm = p.grad.data.norm(2)
            norms.append(param_norm.item())
            clip_coef = clip / (param_norm + 1e-6)
            if clip_coef < 1:
                p.grad.data.mul_(clip_coef)
    return norms
"""
ALL = """import torch


def measure(params, max_norm):
    grads = [p.grad.detach() for p in params if p.grad is not None]
    if len(grads) == 1:
        total_norm = torch.norm(grads[0], p=2, dtype=torch.float32)
    else:
        total_norm = torch.norm(torch.stack([torch.norm(g, p=2).to("cpu") for g in grads])).to(grads[0].dtype)
    torch._foreach_mul_(grads, (max_norm / (total_norm + 1e-6)).clamp_(max=1))
    return total_norm
"""


RUN = """
import sys
import torch
import {0} as module
torch.manual_seed(0)
parameters = [torch.nn.Parameter(torch.zeros(4, 3)) for _ in range(2)]
for p in parameters:
    p.grad = torch.randn(p.shape) * 4
rows = torch.sparse_coo_tensor([[0, 0, 2]], torch.randn(3, 3), (4, 3)) * 4
parameters[1].grad = rows if {1} else rows.to_dense()
module.measure(iter(parameters), 1.0)
print([p.grad.to_dense().norm().item() for p in parameters])
"""


@pytest.mark.process
@pytest.mark.parametrize("source", [EACH, ALL], ids=["each", "all"])
def test_what_is_left_of_gradients_is_the_same_sparse_or_not(source: str, tmp_path: Path) -> None:
    """Each rewrite alone on dense gradients; and on a sparse one those that are for it, with a row stored twice."""
    place = place_of(tmp_path, source)
    found = rewrites_of(place, [finding(probe) for probe in (SPARSE, DESTROYS, "sync_in_loop")])
    runs = [("watch", False)]
    for rewrite in found:
        (tmp_path / f"watch_{rewrite.name}.py").write_text(text_with(place, [rewrite]))
        runs += [(f"watch_{rewrite.name}", is_sparse) for is_sparse in (False, True)[: 1 + (SPARSE in rewrite.probes)]]
    code = "\n".join(RUN.format(*run) for run in runs)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, *others = [[float(value) for value in line[1:-1].split(",")] for line in done.stdout.splitlines()]
    assert any(is_sparse for _, is_sparse in runs)
    assert [values == pytest.approx(before, rel=1e-5) for values in others] == [True] * (len(runs) - 1)
