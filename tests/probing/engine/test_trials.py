"""Trying what was found costs as few processes and imports as it can, and gives the same answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.model.enums import Contract
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.trials import Trial, try_candidates
from auditkit.probing.find.candidates import Candidate

pytestmark = pytest.mark.process

# Says in the checkout that it was imported, once more for each time.
COUNTED = """
with open("imports.log", "a") as log:
    log.write(__name__ + "\\n")
"""
NORM = """
def {name}(gradients):
    return sum(float(each.norm()) ** 2 for each in gradients) ** 0.5
"""


def tried(folder: Path, *calls: str) -> list[Trial]:
    candidates = [Candidate(call, "", 1, Contract.GRAD_NORM) for call in calls]
    # They write logs where they lie.
    return try_candidates(candidates, Setting(folder, sys.executable, (folder,)))


def imports(folder: Path) -> list[str]:
    return (folder / "imports.log").read_text().split()


def test_a_module_that_has_numpy_multiply_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of numpy's own would be a reason to import it for each target again."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    multiply = "import numpy\nnumpy.ones((300, 300)) @ numpy.ones((300, 300))\n"
    norms = "".join(NORM.format(name=f"norm_{number}") for number in range(3))
    (tmp_path / "norms.py").write_text(COUNTED + multiply + norms)
    found = tried(tmp_path, *(f"norms:norm_{number}" for number in range(3)))
    assert [trial.works for trial in found] == [True] * 3
    assert imports(tmp_path) == ["norms"]
