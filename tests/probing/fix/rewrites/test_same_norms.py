"""Rewritten functions are run: on ordinary gradients they answer as before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.probing.fix.rewrites.rewrite import rewrites_of
from tests.probing.fix.rewrites.places import finding, place_of, text_with

pytestmark = pytest.mark.process

SOURCE = """import torch


def measure(parameters):
    parameters = list(parameters)
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            total += p.grad.norm(2).item() ** 2
    grads = [p.grad for p in parameters if p.grad is not None]
    norms = [p.grad.norm(2).item() for p in parameters if p.grad is not None]
    squares = sum(g.pow(2).sum() for g in grads).sqrt().item()
    flat = torch.cat([g.view(-1) for g in grads])
    zeros = (flat == 0).float().mean().item()
    layers = {}
    for name, p in enumerate(parameters):
        layers[name] = (p.grad.min().item(), (p.grad > 0).float().mean().item())
    return [total**0.5, *norms, squares, zeros, *(value for pair in layers.values() for value in pair)]
"""
RUN = """
import sys
import torch
import {0} as module
torch.manual_seed(0)
parameters = [torch.nn.Parameter(torch.zeros(4, 3)), torch.nn.Parameter(torch.zeros(5))]
for p in parameters:
    p.grad = torch.randn(p.shape).relu()
print(module.measure(iter(parameters)))
"""
PROBES = [
    "norm_overflows_on_finite_grads",
    "launches_grow_with_tensors",
    "syncs_grow_with_tensors",
    "peak_memory_grows_with_params",
    "counts_are_rounded",
    "fails_on_sparse_grads",
    "fails_on_zero_element_grads",
]


def test_every_rewrite_answers_as_before(tmp_path: Path) -> None:
    """Each alone, in one process; at least four are tried."""
    place = place_of(tmp_path, SOURCE)
    found = rewrites_of(place, [finding(probe) for probe in PROBES])
    assert len(found) >= 4
    modules = ["watch"]
    for rewrite in found:
        modules.append(f"watch_{rewrite.name}")
        (tmp_path / f"{modules[-1]}.py").write_text(text_with(place, [rewrite]))
    code = "\n".join(RUN.format(module) for module in modules)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, *after = [[float(value) for value in line[1:-1].split(",")] for line in done.stdout.splitlines()]
    assert [values == pytest.approx(before, rel=1e-6) for values in after] == [True] * len(found)
