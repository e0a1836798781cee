"""docs/verify.md shows a fix that is none and one that is proven: its commands are run here, with real probes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console_pages import check_page, git

PAGE = Path(__file__).resolve().parents[1] / "docs" / "verify.md"
START = """import torch


def total_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
"""
NAIVE = (
    START
    + """    total = sum((g.float() * g.float()).sum() for g in grads)
    return float(total.sqrt().item())
"""
)
FIXES = {
    "foreach": START + """    norms = torch._foreach_norm(grads, 2)
    return torch.stack(norms).pow(2).sum().sqrt().item()
""",
    "float64": START + """    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack(norms)).item()
""",
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with the defect, and two files that claim to mend it beside it."""
    repository = tmp_path / "project"
    file = repository / "src" / "train" / "norms.py"
    file.parent.mkdir(parents=True)
    file.write_text(NAIVE, encoding="utf-8")
    (tmp_path / "fixes").mkdir()
    for name, text in FIXES.items():
        (tmp_path / "fixes" / f"{name}.py").write_text(text, encoding="utf-8")
    (repository / ".gitignore").write_text("tickets/\n", encoding="utf-8")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "the norm"]):
        git(repository, *command)
    return repository


@pytest.mark.slow
def test_the_page_shows_what_its_commands_print(project: Path, request: pytest.FixtureRequest) -> None:
    assert NAIVE.partition("\n\n\n")[2] in PAGE.read_text(encoding="utf-8")
    check_page(PAGE, project, request.config.getoption("--update-golden"))
