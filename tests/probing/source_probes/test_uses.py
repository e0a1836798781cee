"""Who names a definition: what counts as a use, what does not, and what a package exports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source_helpers import EXPORT, UNTESTED, UNUSED, found

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


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pkg/loop.py", '"""The total_norm of all."""\n# total_norm\n'),
        ("pkg/norms.py", "@torch.no_grad()\n" + NORMS),
    ],
)
def test_these_do_not_name_it(file: str, text: str, tmp_path: Path) -> None:
    """A docstring, a comment, and a decorator that registers nothing."""
    assert list(found(tmp_path, {**PACKAGE, file: text}, UNUSED)) == ["pkg.norms"]


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


@pytest.mark.parametrize(
    "text",
    [
        "from pkg.norms import total_norm\n\n\ndef test_it():\n    assert total_norm([]) == 0.0\n",
        "def test_total_norm_of_nothing():\n    pass\n",
        "class TestTotalNorm:\n    pass\n\n\n# total_norm is tested through the command line\n",
        "def test_it(monkeypatch):\n    monkeypatch.setattr('pkg.norms.total_norm', None)\n",
    ],
)
def test_a_test_that_names_it_is_one(text: str, tmp_path: Path) -> None:
    assert found(tmp_path, {**PACKAGE, "tests/test_it.py": text}, UNTESTED) == {}


def test_what_no_test_names_is_listed_by_module(tmp_path: Path) -> None:
    """Functions and classes that return figures of gradients; nothing private, no recipe, no record, no script."""
    norms = NORMS + (
        "\n\ndef _private(grads):\n    return grads[0].norm()\n\n\n"
        "def recipe_main(config):\n    clip_grad_norm_(config.parameters)\n\n\n"
        "def train(model):\n    model.loss().backward()\n    return model.weight.grad.norm()\n\n\n"
        "class Config:\n    limit: float\n\n    def scaled(self):\n        return self.limit * 2\n\n\n"
        "class GradRatio:\n    seed: float\n\n    def ratio(self):\n        return self.seed / 2\n\n\n"
        "class Monitor:\n    def health(self, parameters):\n        return [p.grad.norm() for p in parameters]\n"
    )
    files = {"pkg/__init__.py": "", "pkg/norms.py": norms, "scripts/run.py": NORMS}
    (result,) = found(tmp_path, {**files, "tests/test_other.py": "x = 1\n"}, UNTESTED).values()
    assert result.message == "no test names total_norm (line 1), GradRatio (line 25), Monitor (line 32)"
    assert (result.target, result.location.line, result.severity) == ("pkg.norms", 1, "P4")
