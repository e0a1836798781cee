"""What docs/architecture.md shows of the packages, drawn from their docstrings.

python -m tests.architecture --write
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.evidence import fill
from tests.project_files import ROOT

PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = ROOT / "auditkit"


def packages(package: Path) -> Iterator[str]:
    """A line for each package: its path, and the first line of what its `__init__.py` says."""
    for path in sorted(package.rglob("__init__.py"), key=lambda path: path.parent.parts):
        text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        depth = len(path.parent.relative_to(package).parts)
        if depth:
            name = path.parent.relative_to(package.parent).as_posix()
            yield f"{'  ' * (depth - 1)}- `{name}`: {text}"


def page(text: str) -> str:
    """The page `text` with the packages of the first level as they are now."""
    return fill(text, "architecture", {"packages": "\n".join(line for line in packages(PACKAGE) if line[0] == "-")})


if __name__ == "__main__":
    drawn = page(PAGE.read_text(encoding="utf-8"))
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(drawn, encoding="utf-8")
    else:
        print(drawn)
