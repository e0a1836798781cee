"""docs/tickets.md shows a folder of tickets at work: its commands are run here, and print what the page says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.console_pages import BLOCK, check_page, git

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tickets.md"
OLD_AUDIT = ROOT / "tests" / "data" / "old_audit"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository of a small training project, with the folder of an old audit beside it."""
    repository = tmp_path / "project"
    sources = {"norms.py": 60, "clipping.py": 60, "loop.py": 120, "stats.py": 20, "log.py": 60}
    for name, count in sources.items():
        path = repository / "src" / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line_{number} = {number}\n" for number in range(1, count + 1)), encoding="utf-8")
    shutil.copytree(OLD_AUDIT, repository / "old_audit")
    titles = [re.search(r"# Finding Ticket: (.*)", file.read_text("utf-8")) for file in OLD_AUDIT.rglob("B*.md")]
    report = "# Audit of November 2025\n" + "".join(f"\n## {title[1]}\n" for title in titles if title)
    (repository / "audits").mkdir()
    (repository / "audits" / "2025-11.md").write_text(report, encoding="utf-8")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "the code that was audited"]):
        git(repository, *command)
    return repository


def test_the_page_shows_what_its_commands_print(project: Path, request: pytest.FixtureRequest) -> None:
    assert len(BLOCK.findall(PAGE.read_text(encoding="utf-8"))) >= 8
    check_page(PAGE, project, request.config.getoption("--update-golden"))
