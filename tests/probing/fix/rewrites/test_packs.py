"""Counts in packs: the exact text, and copies that are used for more than counts."""

from __future__ import annotations

from pathlib import Path

from tests.probing.fix.rewrites.places import after

MEMORY = "peak_memory_grows_with_params"
HEAD = "import torch\n\n\n"
BODY = """def measure(grads):
    # one copy
    flat = torch.cat([g.view(-1) for g in grads])
    nans = torch.isnan(flat).sum().item()
    zeros = (flat == 0).float().mean().item()
    return nans, zeros, flat.numel() / 2
"""


def test_each_count_is_a_sum_over_packs(tmp_path: Path) -> None:
    """The copy is gone, its comment stays, and the helper stands before the function."""
    text = after(tmp_path, HEAD + BODY, "counted_in_packs", MEMORY)
    helper, function = text.split("def measure(grads):\n")
    assert helper.startswith(HEAD + "def _packs(grads, elements=1 << 19):\n")
    count = "torch.count_nonzero(torch.isnan(pack)).to(grads[0].device)"
    assert function.split("\n")[:2] == [
        "    # one copy",
        f"    nans = sum({count} for pack in _packs(grads)).item()",
    ]
    assert "flat" not in function
    assert "torch.count_nonzero(pack == 0)" in function


def test_a_copy_that_something_else_needs_stays(tmp_path: Path) -> None:
    """A median of all elements is no sum over packs."""
    source = HEAD + BODY.replace("/ 2", "/ 2, flat.median()")
    assert after(tmp_path, source, "counted_in_packs", MEMORY) == source
