"""The pages about public code: what they show is what is stored, and every outcome is the one on record."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import public_code
from benchmarks.evidence import Place, fill, page_of, results_of

PAGES = public_code.pages()
SOURCE = """\
import torch


def norms(model: torch.nn.Module) -> list[float]:
    return [p.grad.norm().item() for p in model.parameters()]
"""


def text_of(name: str) -> str:
    return page_of(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page["name"])
def test_a_page_shows_the_stored_answers_and_all_are_on_record(page) -> None:
    blocks, others = public_code.written(page, results_of(page["name"]))
    assert fill(text_of(page["name"]), page["name"], blocks) == text_of(page["name"])
    assert others == []


def test_another_outcome_is_seen() -> None:
    """The control: one outcome that is not on record."""
    page = PAGES["seed-findings"]
    stored = results_of(page["name"])
    stored["rows"][1]["outcome"] = "reproduced"
    blocks, others = public_code.written(page, stored)
    assert others == ["async graph_breaks_under_compile: reproduced, on record: not_reproduced"]
    assert fill(text_of("seed-findings"), "seed-findings", blocks) != text_of("seed-findings")


def test_a_page_that_lacks_a_block_is_refused() -> None:
    with pytest.raises(SystemExit, match="the page's blocks are"):
        fill("<!-- written: part/a -->\nold\n<!-- /written -->\n", "part", {"a": "new", "b": "more"})


@pytest.mark.process
def test_the_driver_asks_and_writes(tmp_path: Path) -> None:
    """A source probe of a repository of one file, from the command to the table and to the failing check."""
    clone = tmp_path / "clones" / "small"
    clone.mkdir(parents=True)
    (clone / "norms.py").write_text(SOURCE, encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(clone)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "norms"]):
        subprocess.run([*git, *words], check=True)
    page = {
        "name": "small",
        "subjects": {"all": "--checkout small@HEAD"},
        "table": {"said": "{said}", "commit": "{commit}", "outcome": "{outcome}", "found": "{message}"},
        "record": ["subject", "probe", "outcome", "said", "about"],
        "rows": "all | sync_in_loop | reproduced | n waits | norms\nall | sync_in_loop | reproduced | none | nowhere\n",
    }
    (tmp_path / "place").mkdir()
    place = Place(tmp_path / "place", tmp_path / "clones", sys.executable)
    document = place.document(public_code.command(page, "all", public_code.probes_of(page, "all")))
    assert str(tmp_path) not in json.dumps(document["run"]["checkout"])
    rows = [{"revision": document["run"]["revision"], **public_code.answer(row, document["results"])}
            for row in public_code.record(page)]  # fmt: skip
    table, others = public_code.outcomes(page, rows)
    assert "| n waits | " + document["run"]["revision"][:8] + " | reproduced | 1 line waits for the device" in table
    assert others == ["all sync_in_loop: not_reproduced, on record: reproduced"]
