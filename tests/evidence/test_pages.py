"""The pages of evidence show their stored results; every outcome is the one on record, and another one is seen."""

from __future__ import annotations

import pytest

from benchmarks import fixes, gpu, public_code, reach, training_steps
from benchmarks.evidence import fill, page_of, results_of

PUBLIC = {page["name"]: page for page in public_code.pages().values()}
STEPS = training_steps.PAGE


def text_of(name: str) -> str:
    return page_of(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*PUBLIC, STEPS, reach.NAME, fixes.NAME])
def test_a_page_shows_the_stored_results_and_all_are_on_record(name: str) -> None:
    stored, others = results_of(name), list[str]()
    if name in PUBLIC:
        blocks, others = public_code.written(PUBLIC[name], stored)
    elif name == STEPS:
        blocks, others = training_steps.page(stored["rows"])
    else:
        blocks = (reach if name == reach.NAME else fixes).blocks(stored)
    assert (fill(text_of(name), name, blocks), others) == (text_of(name), [])


def test_another_outcome_is_seen() -> None:
    """The control: outcomes that are not on record."""
    stored = results_of("seed-findings")
    stored["rows"][1]["outcome"] = "reproduced"
    blocks, others = public_code.written(PUBLIC["seed-findings"], stored)
    assert others == ["async graph_breaks_under_compile: reproduced, on record: not_reproduced"]
    assert fill(text_of("seed-findings"), "seed-findings", blocks) != text_of("seed-findings")
    rows = results_of(STEPS)["rows"]
    sound = next(index for index, each in enumerate(training_steps.SUBJECTS) if not each.red)
    found = {"outcome": "reproduced", "probe": "a_probe", "severity": "P1", "message": "", "location": None}
    rows[sound]["results"][0] = found
    assert training_steps.page(rows)[1] == [f"{training_steps.SUBJECTS[sound].name}: a_probe"]


def test_a_page_that_lacks_a_block_is_refused() -> None:
    with pytest.raises(SystemExit, match="the page's blocks are"):
        fill("<!-- written: part/a -->\nold\n<!-- /written -->\n", "part", {"a": "new", "b": "more"})


@pytest.mark.acceptance
def test_every_row_of_the_gpus_page_is_rehearsed_on_the_cpu() -> None:
    """Every row is measured, and the page can be written."""
    found = gpu.main(["--rehearse"])
    errors = {name: row["error"] for name, row in found["rows"].items() if "error" in row}
    assert all('backend="triton"' in name for name in errors), errors
    assert found["rows"]["traffic collect_gradients"]["counts"].keys() == {"simulated", "cpu"}
    assert "collectors agree." in fill(text_of("gpu"), "gpu", found["blocks"])
