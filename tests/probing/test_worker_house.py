"""The worker runs in any target's interpreter: Python 3.10 syntax, the standard library, torch and itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKER = sorted((ROOT / "auditkit" / "probing" / "worker").glob("*.py"))
PROBES = sorted((ROOT / "probes").glob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    """The top-level packages that a module imports, "" for its own."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("" if node.level else (node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", [*WORKER, *PROBES], ids=lambda path: path.name)
def test_its_syntax_is_that_of_python_3_10(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))


def test_newer_syntax_would_be_seen() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("try: pass\nexcept* ValueError: pass\n", feature_version=(3, 10))


@pytest.mark.parametrize("path", WORKER, ids=lambda path: path.name)
def test_it_imports_the_standard_library_torch_and_itself(path: Path) -> None:
    assert imported(ast.parse(path.read_text(encoding="utf-8"))) - set(sys.stdlib_module_names) <= {"torch", ""}


@pytest.mark.parametrize("path", PROBES, ids=lambda path: path.name)
def test_a_probe_imports_the_standard_library_and_its_launcher(path: Path) -> None:
    """And torch where it measures: a definition is read, and a stored run judged, without torch."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert imported(tree) - set(sys.stdlib_module_names) <= {"_alone", "torch"}
    measuring = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "measure"]
    rest = ast.Module([node for node in tree.body if node not in measuring], [])
    assert imported(rest) - set(sys.stdlib_module_names) <= {"_alone"}


def test_the_host_side_of_the_worker_needs_no_torch() -> None:
    """What auditkit itself imports to start a worker leaves torch alone."""
    code = "import auditkit.probing.runner, auditkit.probing.sandbox, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
