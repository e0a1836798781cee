"""The pages name only modules and files of the package that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project_files import ROOT

PATH = re.compile(r"(?<![\w./-])auditkit/[\w/.-]*\w")
DOTTED = re.compile(r"(?<![\w./@-])auditkit(?:\.[a-z_]+){1,5}\b(?!\()")
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]
# The first word after `auditkit.` that makes a file's name, a marker or an entry point of another kind.
OTHER_FILES = ("yaml", "yml", "driver")


def missing(text: str) -> list[str]:
    """The names in `text` for which the package has no file, and no definition in the module before the last dot."""
    paths = [name for name in PATH.findall(text) if not any(ROOT.glob(name + "*"))]
    return paths + [
        name for name in DOTTED.findall(text) if name.split(".")[1] not in OTHER_FILES and not _exists(name)
    ]


def _exists(dotted: str) -> bool:
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:end])
        module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if module.is_file():
            return end == len(parts) or re.search(rf"\b{parts[end]}\b", module.read_text("utf-8")) is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_named_module_exists(page: Path) -> None:
    assert missing(page.read_text("utf-8")) == []


def test_a_moved_module_is_seen() -> None:
    assert missing("`auditkit.probing.engine.no_such_file` and auditkit/probing/no_such_file.py") == [
        "auditkit/probing/no_such_file.py",
        "auditkit.probing.engine.no_such_file",
    ]
