"""A virtual environment that came with the checkout: its python is a script, and its site-packages run something."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from auditkit.model.enums import CageChoice, Outcome
from auditkit.model.runs.target import Target
from auditkit.workflows.audit.audit import AuditRequest, audit
from auditkit.workflows.audit.run_options import RunOptions
from tests.cage.engines import NONE, engine_name, set_engine
from tests.filing_helpers import put
from tests.probing_helpers import OVERFLOW
from tests.second_interpreter import make_interpreter

__all__ = ["engine_name"]

pytestmark = pytest.mark.process

MARK = "try:\n    open({file!r}, 'w').close()\nexcept OSError:\n    pass\n"
COLLECTOR = "def norm(gradients):\n    return sum(float(g.double().pow(2).sum()) for g in gradients) ** 0.5\n"
# Debian's Python has a sitecustomize of its own, which is found first.
OWN = Path(sysconfig.get_path("stdlib"), "sitecustomize.py")
WAYS = {"script", "pth", *([] if OWN.exists() else ["sitecustomize"])}


def hostile_checkout(folder: Path) -> Path:
    """Each way leaves a file of its name beside the checkout."""
    checkout = put(folder, "checkout/stats.py", COLLECTOR).parent
    python = make_interpreter(checkout / ".venv", MARK.format(file=str(folder / "pth")))
    (packages,) = (checkout / ".venv").glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(MARK.format(file=str(folder / "sitecustomize")))
    real = python.resolve()
    (python.parent / "real").symlink_to(real)
    python.unlink()
    python.write_text(f'#!/bin/sh\n(: > "{folder}/script") 2>/dev/null\nexec "{python.parent}/real" "$@"\n')
    python.chmod(0o755)
    return checkout


def ask(checkout: Path, choice: CageChoice) -> Outcome:
    """Its torch is this interpreter's, which no cage shows to one that came with a checkout."""
    options = RunOptions(cage=choice, cage_read=(Path(sysconfig.get_path("purelib")),))
    run = audit(AuditRequest(str(checkout), (options,), (Target("stats:norm"),), (OVERFLOW,)))
    (result,) = run.results
    return result.outcome


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} & WAYS


def test_nothing_of_it_runs_outside_of_the_cage(
    tmp_path: Path, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(hostile_checkout(tmp_path), set_engine(engine_name, monkeypatch)) is Outcome.NOT_REPRODUCED
    assert left(tmp_path) == set()


def test_all_of_it_runs_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    assert ask(hostile_checkout(tmp_path), set_engine(NONE, monkeypatch)) is Outcome.NOT_REPRODUCED
    assert left(tmp_path) == WAYS
