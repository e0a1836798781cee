"""docs/reports.md, compare.md, bisect.md and cage.md: their commands print here what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console_pages import BLOCK, check_page, git
from tests.filing_helpers import put
from tests.project_files import ROOT
from tests.source_helpers import write

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


def check(page: str, block_count: int, folder: Path, request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / page
    assert len(BLOCK.findall(path.read_text(encoding="utf-8"))) == block_count
    check_page(path, folder, request.config.getoption("--update-golden"))


@pytest.mark.acceptance
def test_the_page_of_reports_shows_what_its_commands_print(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    write(tmp_path, FILES)
    check("reports.md", 1, tmp_path, request)


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


@pytest.mark.slow
def test_the_page_of_compare_shows_what_its_commands_print(tmp_path: Path, request: pytest.FixtureRequest) -> None:
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
    check("compare.md", 1, tmp_path, request)
    check("bisect.md", 1, tmp_path, request)


@pytest.mark.process
def test_the_page_of_the_sandbox_shows_what_its_command_prints(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The header names the sandbox; another header or result is another text."""
    norm = "def norm(parameters):\n    return sum(p.grad.norm().item() ** 2 for p in parameters) ** 0.5\n"
    put(tmp_path, "pull-request/norms.py", norm)
    (tmp_path / "here").mkdir()
    check_page(ROOT / "docs" / "cage.md", tmp_path / "here", request.config.getoption("--update-golden"))
