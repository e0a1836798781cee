"""docs/reports.md shows the reports of a small project: its commands are run here, and print what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console_pages import BLOCK, check_page
from tests.source_helpers import write

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reports.md"
FILES = {
    "trainer/norms.py": '''"""Norms of the gradients of one step."""

import torch


def collect_norms(parameters: list) -> dict:
    """Launch, and wait for nothing."""
    grads = [p.grad for p in parameters if p.grad is not None]
    return {"norms": torch.stack([g.norm(2) for g in grads]), "count": len(grads)}


def materialize_norms(pending: dict) -> dict:
    """Read what `collect_norms` launched."""
    return {"norm": pending["norms"].norm().item(), "count": pending["count"]}


def layer_norms(grads: list) -> list:
    return [g.norm(2).item() for g in grads]
''',
    "trainer/loop.py": """import torch

from norms import collect_norms, layer_norms, materialize_norms


def step(model, stream):
    pending = collect_norms(list(model.parameters()))
    stream.synchronize()
    return materialize_norms(pending)


def main(model):
    print(step(model, torch.cuda.Stream()), layer_norms([p.grad for p in model.parameters()]))
""",
    "trainer/tests/test_norms.py": """from norms import collect_norms


def test_nothing():
    assert collect_norms
""",
}


def test_the_page_shows_what_its_commands_print(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    write(tmp_path, FILES)
    assert len(BLOCK.findall(PAGE.read_text(encoding="utf-8"))) == 1
    check_page(PAGE, tmp_path, request.config.getoption("--update-golden"))
