"""Changes of one expression each: the exact text, and the near miss beside it that stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probing.fix.rewrites.places import after

EMPTY = "fails_on_zero_element_grads"
MISSING = "fails_on_missing_grads"
NOTHING = "empty_input_changes_result_type"
OVERFLOW = "norm_overflows_on_finite_grads"
NAN = "nonfinite_grads_look_healthy"
ZERO = "ratio_divides_by_zero"
CHANGES = [
    ("reshaped", "fails_on_noncontiguous_grads", "x = g.view(-1)", "x = g.reshape(-1)"),
    (
        "without_elements",
        EMPTY,
        "x = [p.grad for p in parameters if p.grad is not None]",
        "x = [p.grad for p in parameters if p.grad is not None and p.grad.numel()]",
    ),
    (
        "present_gradients",
        MISSING,
        "x = [p.grad.detach() for p in parameters]",
        "x = [p.grad.detach() for p in parameters if p.grad is not None]",
    ),
    (
        "present_gradients",
        MISSING,
        "x = [p.grad for p in parameters if p.requires_grad or p.is_tied]",
        "x = [p.grad for p in parameters if p.grad is not None and (p.requires_grad or p.is_tied)]",
    ),
    ("norms_in_float64", OVERFLOW, "x = torch.norm(g, dtype=torch.float)", "x = torch.norm(g, dtype=torch.float64)"),
    ("norms_in_float64", OVERFLOW, "x = g.norm(2, dim=1)", "x = g.norm(2, dim=1, dtype=torch.float64)"),
    (
        "zeros_of_nothing",
        NOTHING,
        "norms = []; x = torch.norm(torch.stack(norms))",
        "norms = []; x = torch.norm(torch.stack(norms) if norms else torch.zeros(1, dtype=torch.float64))",
    ),
    (
        "zeros_of_nothing",
        NOTHING,
        "n = torch._foreach_norm(grads); x = torch.stack(n)",
        "n = torch._foreach_norm(grads) if grads else []; "
        "x = torch.stack(n) if n else torch.zeros(1, dtype=torch.float64)",
    ),
    ("divided_by_at_least_one", ZERO, "x = 2 / g.numel()", "x = 2 / max(g.numel(), 1)"),
    ("divided_by_at_least_one", ZERO, "x = 2 / g", ""),
    ("nan_is_too_large", NAN, "x = (norms > small_threshold).sum()", ""),
    ("nan_is_too_large", NAN, "x = (norms < exploding).sum()", ""),
]


@pytest.mark.parametrize(("name", "probe", "statement", "wanted"), CHANGES)
def test_the_expression_alone_is_changed(tmp_path: Path, name: str, probe: str, statement: str, wanted: str) -> None:
    """What has no wanted text is a near miss, and stays."""
    source = f"import torch\n\n\ndef measure(parameters, grads, g, norms):\n    {statement}  # kept\n    print(x)\n"
    expected = source.replace(statement, wanted or statement)
    assert after(tmp_path, source, name, probe) == expected


def test_copies_in_float64_give_way_to_the_dtype(tmp_path: Path) -> None:
    """Only where norms are all that is taken of them."""
    source = (
        "import torch\n\n\ndef measure(grads):\n    copies = [g.double() for g in grads]\n"
        "    return torch._foreach_norm(copies)\n"
    )
    wanted = source.replace("g.double()", "g").replace("(copies)", "(copies, dtype=torch.float64)")
    probe = "peak_memory_grows_with_params"
    assert after(tmp_path, source, "without_double_copies", probe) == wanted
    other = source.replace("return", "copies[0].add_(1)\n    return")
    assert after(tmp_path, other, "without_double_copies", probe) == other


def test_a_branch_on_a_tensor_is_chosen_on_its_device(tmp_path: Path) -> None:
    """Only where the compared name is a tensor: one that was read is a number already."""
    source = (
        "import torch\n\n\ndef measure(norms):\n    count = (norms > 1).sum()\n    if count > 0:\n"
        "        norms = norms.clamp(max=1)\n    return norms\n"
    )
    wanted = source.replace(
        "    if count > 0:\n        norms = norms.clamp(max=1)\n",
        "    norms = torch.where(count > 0, norms.clamp(max=1), norms)\n",
    )
    probe = "async_collect_synchronizes"
    assert after(tmp_path, source, "chosen_on_device", probe) == wanted
    read = source.replace(".sum()", ".sum().item()")
    assert after(tmp_path, read, "chosen_on_device", probe) == read


def test_a_loop_that_reads_gradients_passes_over_what_has_none(tmp_path: Path) -> None:
    source = "def measure(named, factor):\n    for _, p in named:\n        p.grad.mul_(factor)\n"
    asked = source.replace("        p.grad", "        if p.grad is None:\n            continue\n        p.grad")
    assert after(tmp_path, source, "present_gradients", MISSING) == asked
    assert after(tmp_path, asked, "present_gradients", MISSING) == asked
