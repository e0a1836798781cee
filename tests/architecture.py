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
FILES = frozenset({"__init__", "__main__", "errors", "assets", "git_process", "processes", "pytest_plugin"})
"""Rows of the table that are single files: everybody may use errors, and the picture leaves them out."""
NO_IMPORTS = ("probing == starts ==> worker", "worker == loads ==> probes", "worker == loads ==> target")


def arrows(layers: Mapping[str, Layer]) -> list[tuple[str, str, bool]]:
    """Who imports whom, and whether in functions only; without arrows that a longer way already says."""
    packages = layers.keys() - FILES
    direct = {name: (layers[name].ours | layers[name].calls_only) & packages - {name} for name in packages}
    reached = {name: _beyond(direct[name], direct) for name in packages}
    return [
        (name, other, other in layers[name].calls_only)
        for name in layers
        if name in packages
        for other in sorted(direct[name] - reached[name])
    ]


def _beyond(names: frozenset[str], direct: Mapping[str, frozenset[str]]) -> set[str]:
    """What is reached from `names` in one step or more."""
    found: set[str] = set()
    waiting = [other for name in names for other in direct[name]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += direct[name]
    return found


def picture(layers: Mapping[str, Layer]) -> str:
    """The packages and their imports as a Mermaid drawing; dotted where a layer imports inside functions only."""
    lines = ["```mermaid", "flowchart TD"]
    lines += [f"    {name} {'-.->' if is_late else '-->'} {other}" for name, other, is_late in arrows(layers)]
    lines += [f"    {each}" for each in NO_IMPORTS]
    return "\n".join([*lines, "```"])


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
    blocks = {"picture": picture(layers), "packages": "\n".join(packages(PACKAGE)), "imports": import_table(layers)}
    return fill(text, blocks)


if __name__ == "__main__":
    drawn = page(PAGE.read_text(encoding="utf-8"))
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(drawn, encoding="utf-8")
    else:
        print(drawn)
