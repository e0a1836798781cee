"""docs/cage.md shows a command in the sandbox: it is run here, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console_pages import check_page
from tests.project_files import ROOT

pytestmark = pytest.mark.process
NORM = "def norm(parameters):\n    return sum(p.grad.norm().item() ** 2 for p in parameters) ** 0.5\n"


def test_the_page_shows_what_the_sandboxed_command_prints(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The header names the sandbox; another header or result is another text."""
    for folder in ("pull-request", "here"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pull-request" / "norms.py").write_text(NORM)
    check_page(ROOT / "docs" / "cage.md", tmp_path / "here", request.config.getoption("--update-golden"))
