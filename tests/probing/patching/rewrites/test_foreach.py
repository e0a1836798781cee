"""Norms in one operator: the exact text, and lists that are none of gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probing.patching.rewrites.places import after

LAUNCHES = "launches_grow_with_tensors"


def _lines(folder: Path, *statements: str) -> list[str]:
    source = "import torch\n\n\ndef measure(parameters, grads):\n" + "".join(f"    {one}\n" for one in statements)
    return [line.strip() for line in after(folder, source, "norms_together", LAUNCHES).split("\n")[4:-1]]


def test_norms_of_parameters_are_taken_of_their_gradients_together(tmp_path: Path) -> None:
    """Sparse gradients as their stored values, and no operator on an empty list, which raises."""
    stored = "p.grad.coalesce().values() if p.grad.is_sparse else p.grad"
    assert _lines(tmp_path, "norms = [p.grad.norm(2).item() for p in parameters if p.grad is not None]") == [
        f"grads_2 = [{stored} for p in parameters if p.grad is not None]",
        "norms = []",
        "if grads_2:",
        "norms = torch._foreach_norm(grads_2, 2, dtype=torch.float64)",
        "norms = torch.stack([norm.to(norms[0].device) for norm in norms]).tolist()",
    ]


def test_a_sum_of_squares_is_the_square_of_the_norm_of_norms(tmp_path: Path) -> None:
    norms = "[norm.to(grads[0].device) for norm in torch._foreach_norm(grads, 2, dtype=torch.float64)]"
    whole = f"torch.linalg.vector_norm(torch.stack({norms}))"
    statement = "total = sum(g.pow(2).sum() for g in grads).sqrt()"
    assert " ".join(_lines(tmp_path, statement)) == f"total = {whole}"
    assert _lines(tmp_path, "total = sum(g.pow(2).sum() for g in grads)")[-1].endswith(".square()")


@pytest.mark.parametrize(
    "statement",
    [
        "norms = [self.norm(g) for g in grads]",
        "norms = [g.sum().item() for g in grads]",
        "total = sum(g.pow(2).sum() for g in grads if g.is_leaf)",
        "total = sum(g.pow(3).sum() for g in grads)",
        "total = sum((g - 1).pow(2).sum() for g in grads)",
    ],
)
def test_what_is_no_norm_of_each_gradient_stays(tmp_path: Path, statement: str) -> None:
    assert _lines(tmp_path, statement) == [statement]
