"""Targets found in a checkout: each candidate is tried, and what was learnt or refused is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.errors import NothingMeasuredError
from auditkit.probing.checkout.checkout import open_checkout
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.run.found_targets import FoundTargets, find_targets

pytestmark = pytest.mark.process

WATCHING = Path(__file__).resolve().parents[1] / "targets" / "watching"


@pytest.fixture(scope="module")
def found() -> FoundTargets:
    with open_checkout(WATCHING, sys.executable) as opened:
        return find_targets(opened, Setting(WATCHING, sys.executable, (WATCHING,)))


def test_a_checkout_without_collectors_is_an_error_with_a_hint(tmp_path: Path):
    """Nothing found is never an empty success."""
    (tmp_path / "plain.py").write_text("def add(a, b):\n    return a + b\n", encoding="utf-8")
    with open_checkout(tmp_path, sys.executable) as opened:
        found = find_targets(opened, Setting(tmp_path, sys.executable, (tmp_path,)))
    assert isinstance(found.failure, NothingMeasuredError)
    assert found.failure.message == "no gradient collector was found in 1 Python file"
    assert found.failure.hint is not None
    assert f"auditkit probe run sync_in_loop --checkout {tmp_path}; " in found.failure.hint
    assert found.asked == ()


def test_missing_modules_are_named_once_for_the_whole_checkout(tmp_path: Path):
    """With what to install; and a reason that several collectors share stands once."""
    norm = "def {}(parameters):\n    return torch.stack([{}.norm(p.grad) for p in parameters]).norm()\n"
    of_one = norm.format("grad_norm", "einops_missing") + norm.format("total_norm", "einops_missing")
    (tmp_path / "one.py").write_text("import torch, einops_missing, cv2_missing\n" + of_one, encoding="utf-8")
    two = "import torch, yaml_missing\n" + norm.format("norm_of", "yaml_missing")
    (tmp_path / "two.py").write_text(two, encoding="utf-8")
    with open_checkout(tmp_path, sys.executable) as opened:
        found = find_targets(opened, Setting(tmp_path, sys.executable, (tmp_path,)))
    assert isinstance(found.failure, NothingMeasuredError)
    first, needed, *stopped = found.failure.message.splitlines()
    names = "einops_missing yaml_missing"
    assert first == "no gradient collector could be fed:"
    assert needed == f"  this checkout needs: {names.replace(' ', ', ')} ({sys.executable} -m pip install {names})"
    names = "one:grad_norm, one:total_norm, two:norm_of"
    assert stopped == [f"  3 not checked, they use modules that are not installed: {names}"]
    assert found.failure.hint == (
        "install what is missing, or name the interpreter that has it: --python VENV/bin/python"
    )
