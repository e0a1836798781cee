"""What docs/architecture.md shows of the layers, drawn from the import table and the packages.

python -m tests.architecture --write
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.evidence import fill
from tests.layers import LAYERS, Layer
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


def import_table(layers: Mapping[str, Layer]) -> str:
    """What each layer may import, in words."""
    lines = ["| layer | of ours | of others | inside functions only |", "|---|---|---|---|"]
    for name, layer in layers.items():
        late = layer.in_functions | layer.calls_only | layer.optional
        cells = [" ".join(sorted(part)) for part in (layer.ours - {name}, layer.others - layer.optional, late)]
        lines.append("| `" + name + "` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(text: str, layers: Mapping[str, Layer] = LAYERS) -> str:
    """The page `text` with its written blocks as the table and the packages have them now."""
    blocks = {"packages": "\n".join(packages(PACKAGE)), "imports": import_table(layers)}
    return fill(text, "architecture", blocks)


if __name__ == "__main__":
    drawn = page(PAGE.read_text(encoding="utf-8"))
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(drawn, encoding="utf-8")
    else:
        print(drawn)
