"""Reads after the loop: the exact text, and loops that have to stay whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probing.fix.rewrites.places import after

SYNCS = "syncs_grow_with_tensors"

LOOP = """import torch


def measure(parameters, norm_type=2.0):
    total = 0.0  # of all
    for p in parameters:
        # its own norm
        param_norm = p.grad.data.norm(norm_type)
        total += param_norm.item() ** norm_type  # summed
    return total ** (1.0 / norm_type)
"""

LOOP_AFTER = """import torch


def measure(parameters, norm_type=2.0):
    total = 0.0  # of all
    param_norms = []
    for p in parameters:
        # its own norm
        param_norm = p.grad.data.norm(norm_type)
        param_norms.append(param_norm)
    if param_norms:
        param_norms = torch.stack([value.to(param_norms[0].device) for value in param_norms]).tolist()
    for param_norm in param_norms:
        total += param_norm ** norm_type  # summed
    return total ** (1.0 / norm_type)
"""


def _after(folder: Path, source: str) -> str:
    return after(folder, source, "read_once", SYNCS)


def test_a_loop_keeps_its_tensors_and_the_sum_runs_behind_it(tmp_path: Path) -> None:
    """Comments stay with their statements, and the sum is formed of the same numbers in the same order."""
    assert _after(tmp_path, LOOP) == LOOP_AFTER


def test_a_list_of_numbers_is_read_behind_it(tmp_path: Path) -> None:
    source = "import torch\n\n\ndef measure(grads):\n    norms = [g.norm().item() for g in grads]  # each\n"
    assert _after(tmp_path, source).split("\n")[4:7] == [
        "    norms = [g.norm() for g in grads]  # each",
        "    if norms:",
        "        norms = torch.stack([value.to(norms[0].device) for value in norms]).tolist()",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# summed", "# summed\n        if total > 1e6:\n            break"),
        ("# its own norm", "p.grad.mul_(total)"),
        ("  # summed", "\n        p.grad.mul_(2.0)"),
        (".item()", ""),
    ],
)
def test_a_loop_that_needs_its_numbers_stays(tmp_path: Path, old: str, new: str) -> None:
    """A break, a use in the next turn, a change of what is read, and nothing that is read."""
    source = LOOP.replace(old, new)
    assert source != LOOP
    assert _after(tmp_path, source) == source
