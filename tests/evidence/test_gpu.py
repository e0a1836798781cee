"""The evidence from a GPU can be rehearsed without one: every row is measured, and the page can be written."""

from __future__ import annotations

import pytest

from benchmarks import gpu
from benchmarks.evidence import fill, page_of


@pytest.mark.acceptance
def test_every_row_is_rehearsed_on_the_cpu() -> None:
    found = gpu.main(["--rehearse"])
    errors = {name: row["error"] for name, row in found["rows"].items() if "error" in row}
    assert all('backend="triton"' in name for name in errors), errors
    assert found["rows"]["traffic collect_gradients"]["counts"].keys() == {"simulated", "cpu"}
    page = fill(page_of("gpu").read_text(encoding="utf-8"), "gpu", found["blocks"])
    assert "collectors agree." in page
