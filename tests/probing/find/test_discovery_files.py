"""Discovery on awkward checkouts: broken, odd and many files, and public code bases."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.probing.find.search import Discovery, discover
from tests.source_helpers import write

COLLECTOR = "def norm(model):\n    return sum(p.grad.norm() for p in model.parameters())\n"


def calls(found: Discovery) -> list[str]:
    return sorted(item.call for item in found.candidates)


def test_files_that_do_not_parse_are_problems_and_never_fatal(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "good.py": COLLECTOR,
            "broken.py": "x = 1\ndef f(p:\n    p.grad\n",
            "latin.py": b"# \xe9\ndef f(p): return p.grad.norm()\n",
            "null.py": b"p.grad\0",
            "python2.py": "print p.grad\n",
        },
    )
    found = discover(tmp_path)
    assert calls(found) == ["good:norm"]
    assert {problem.path for problem in found.files.problems} == {"broken.py", "latin.py", "null.py", "python2.py"}
    assert next(problem.line for problem in found.files.problems if problem.path == "broken.py") == 2


def test_links_and_their_loops_end(tmp_path: Path) -> None:
    root = write(tmp_path / "checkout", {"package/module.py": COLLECTOR})
    write(tmp_path / "outside", {"other.py": COLLECTOR})
    (root / "package" / "loop").symlink_to(root)
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "alias.py").symlink_to(root / "package" / "module.py")
    assert calls(discover(root)) == ["package.module:norm"]


def test_names_come_from_the_innermost_import_root(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "src/package/__init__.py": "",
            "src/package/a.py": COLLECTOR,
            "src/namespace/b.py": COLLECTOR,
            "tool.py": COLLECTOR,
            "not-a-module.py": COLLECTOR,
            "package2/__init__.py": COLLECTOR,
        },
    )
    named = ["namespace.b:norm", "not-a-module.py:norm", "package.a:norm", "package2:norm", "tool:norm"]
    assert calls(discover(tmp_path)) == named
    by_path = ["not-a-module.py:norm", "package.a:norm", "package2/__init__.py:norm", "tool.py:norm"]
    assert calls(discover(tmp_path, ["src"])) == ["namespace.b:norm", *by_path]
    with pytest.raises(BadInputError, match="no import root"):
        discover(tmp_path, ["sources"])


def test_the_name_of_a_step_leads_to_no_caller(tmp_path: Path) -> None:
    """Every training loop calls a `step`: files that do no more than that are not parsed."""
    step = "class O:\n    def step(self):\n        for p in self.params:\n            p.grad.clamp_(-1, 1)\n"
    write(tmp_path, {"own.py": step, "train.py": "import own\nown.O().step()\n", "norm.py": COLLECTOR})
    write(tmp_path, {"calls.py": "import norm\ndef tell(model):\n    return norm.norm(model)\n"})
    found = discover(tmp_path)
    assert (len(found.files.modules), found.files.read_count) == (3, 4)
    assert calls(found) == ["calls:tell", "norm:norm", "own.py:O.step#clip_grad"]
