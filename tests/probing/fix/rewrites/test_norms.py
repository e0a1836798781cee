"""Norms in float64: the exact text for each spelling, and what is no norm of gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probing.fix.rewrites.places import after

OVERFLOWS = "norm_overflows_on_finite_grads"


def _line(folder: Path, statement: str) -> str:
    source = f"import torch\n\n\ndef measure(grads, norm_type=2.0):\n    {statement}  # kept\n    return total\n"
    return after(folder, source, "norms_in_float64", OVERFLOWS).split("\n")[4].strip()


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("total = grads[0].norm()", "total = grads[0].norm(dtype=torch.float64)"),
        ("total = grads[0].data.norm(norm_type)", "total = grads[0].data.norm(norm_type, dtype=torch.float64)"),
        ("total = torch.norm(grads[0], 2)", "total = torch.norm(grads[0], 2, dtype=torch.float64)"),
        ("total = torch._foreach_norm(grads)", "total = torch._foreach_norm(grads, dtype=torch.float64)"),
        (
            "total = torch.norm(torch.stack([torch.norm(é, 2) for é in grads]), 2)",
            "total = torch.norm(torch.stack([torch.norm(é, 2, dtype=torch.float64) for é in grads]), 2)",
        ),
        (
            "total = sum(g.float().pow(2).sum() for g in grads) ** 0.5",
            "total = sum(torch.linalg.vector_norm(g, dtype=torch.float64).square() for g in grads) ** 0.5",
        ),
        (
            "total = (grads[0] * grads[0]).sum()",
            "total = torch.linalg.vector_norm(grads[0], dtype=torch.float64).square()",
        ),
    ],
)
def test_the_reduction_itself_is_given_float64(tmp_path: Path, statement: str, wanted: str) -> None:
    """No copy of the gradients, the comment stays, and a norm of such norms is float64 already."""
    assert _line(tmp_path, statement) == f"{wanted}  # kept"


@pytest.mark.parametrize(
    "statement",
    [
        "total = self.norm(grads)",
        "total = layer.norm(grads, None)",
        "total = torch.linalg.vector_norm(grads[0], dtype=torch.float64)",
        "total = (grads[0] * grads[1]).sum()",
        "total = grads[0].pow(3).sum()",
        "total = (grads[0] ** 2).sum(dim=0)",
    ],
)
def test_what_is_no_norm_of_all_its_elements_stays(tmp_path: Path, statement: str) -> None:
    assert _line(tmp_path, statement) == f"{statement}  # kept"
