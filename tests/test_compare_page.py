"""docs/compare.md compares two commits of a small project: its commands run here, and print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console_pages import BLOCK, check_page, git
from tests.filing_helpers import put

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[1] / "docs" / "compare.md"
BEFORE = '''import torch


def grad_norm(module):
    """Total norm of the gradients of a module."""
    total = 0.0
    for p in module.parameters():
        if p.grad is not None:
            total = total + (p.grad.float() * p.grad.float()).sum()
    return float(total) ** 0.5
'''
AFTER = '''import torch


def grad_norm(module):
    """Total norm of the gradients of a module."""
    grads = [p.grad.double() for p in module.parameters() if p.grad is not None]
    if not grads:
        return 0.0
    return float(torch.stack(torch._foreach_norm(grads)).norm())
'''


def test_the_page_shows_what_its_commands_print(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    trainer = tmp_path / "trainer"
    trainer.mkdir()
    git(trainer, "init", "-q", "-b", "main")
    for tag, text in (("v1", BEFORE), ("v2", AFTER)):
        put(trainer, "stats.py", text)
        git(trainer, "add", ".")
        git(trainer, "commit", "-q", "-m", f"Norm of the gradients, {tag}")
        git(trainer, "tag", tag)
    for number in (3, 4):
        put(trainer, "stats.py", f"{AFTER}\n\nVERSION = {number}\n")
        git(trainer, "commit", "-q", "-am", f"Version {number}")
    git(trainer, "tag", "v3")
    assert len(BLOCK.findall(PAGE.read_text(encoding="utf-8"))) == 2
    check_page(PAGE, tmp_path, request.config.getoption("--update-golden"))
