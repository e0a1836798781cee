"""Who names a definition: what counts as a use, what does not, and what a package exports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source_helpers import EXPORT, UNUSED, found

pytestmark = pytest.mark.process

NORMS = "def total_norm(grads):\n    return sum(g.norm() for g in grads)\n"
PACKAGE = {"pkg/__init__.py": "", "pkg/norms.py": NORMS}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pkg/loop.py", "from pkg.norms import total_norm\ntotal_norm([])\n"),
        ("pkg/loop.py", "from .norms import total_norm as norm\nnorm([])\n"),
        ("pkg/loop.py", "def f(module):\n    return getattr(module, 'total_norm')\n"),
        ("pkg/loop.py", "HANDLERS = ['pkg.norms:total_norm']\n"),
        ("pkg/loop.py", "from pkg.norms import *\ntotal_norm([])\n"),
        ("pkg/norms.py", "@app.command()\n" + NORMS),
        ("pkg/__init__.py", "from pkg.norms import *\n"),
        ("pkg/norms.py", "__all__ = ['total_norm']\n" + NORMS),
        ("pyproject.toml", "[project.scripts]\nnorm = 'pkg.norms:total_norm'\n"),
        ("README.md", "Call `total_norm`.\n"),
    ],
)
def test_one_file_names_it(file: str, text: str, tmp_path: Path) -> None:
    assert "pkg.norms" not in found(tmp_path, {**PACKAGE, file: text}, UNUSED)


# --- exports -------------------------------------------------------------------------------------

EXPORTING = {
    "pkg/__init__.py": "from pkg.norms import total_norm\n\n__all__ = ['total_norm']\n",
    "pkg/norms.py": NORMS + "\n\ndef max_norm(grads):\n    return 0.0\n\n\nLIMIT = 3\nlogger = None\n",
}
TRAIN = "from pkg.norms import {name}\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"train.py": TRAIN.format(name="total_norm")},
        {"train.py": TRAIN.format(name="logger")},
        {"pkg/loop.py": TRAIN.format(name="max_norm")},
        {"tests/test_norms.py": TRAIN.format(name="max_norm")},
        {"pkg/__init__.py": "", "train.py": TRAIN.format(name="max_norm")},
        {"pkg/__init__.py": "from pkg.norms import *\n", "train.py": TRAIN.format(name="max_norm")},
        {
            "pkg/__init__.py": "from pkg.norms import total_norm\n\n\ndef __getattr__(name):\n    return 1\n",
            "train.py": TRAIN.format(name="max_norm"),
        },
        {
            "pkg/__init__.py": "from pkg.norms import total_norm\n__all__ = ['total_norm', 'max_norm']\n",
            "train.py": TRAIN.format(name="max_norm"),
        },
    ],
    ids=["exported", "logger", "inside", "one test", "exports nothing", "star", "open", "listed"],
)
def test_these_imports_need_no_export(changes: dict[str, str], tmp_path: Path) -> None:
    assert found(tmp_path, {**EXPORTING, **changes}, EXPORT) == {}


# --- tests ---------------------------------------------------------------------------------------
