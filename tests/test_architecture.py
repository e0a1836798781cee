"""docs/architecture.md is what the packages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture import PAGE, packages, page


def test_the_page_is_drawn_from_the_packages(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden", default=False):
        PAGE.write_text(page(text), encoding="utf-8")
    assert page(PAGE.read_text(encoding="utf-8")) == PAGE.read_text(encoding="utf-8")


def test_every_package_says_what_it_is(tmp_path: Path) -> None:
    """A package without a sentence is seen, and ours all have one."""
    assert [line for line in packages(PAGE.parents[1] / "auditkit") if re.search(r": \S.*\S$", line) is None] == []
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "__init__.py").touch()
    assert list(packages(tmp_path / "a")) == ["- `a/b`: "]
