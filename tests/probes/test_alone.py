"""A probe file is a program of its own: it is executable, explains itself, and finds auditkit's interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.project_files import ROOT, Ended

FILES = sorted((ROOT / "probes").glob("*.py"))
FORMS = ROOT / "probes" / "forms.py"
PROBES = [path for path in FILES if not path.name.startswith("_") and path != FORMS]
READS_SOURCE = "sync_in_loop.py"
DEFECTIVE = """import torch

def grad_norm(parameters):
    total = 0.0
    for parameter in parameters:
        total += parameter.grad.norm().item() ** 2
    return total**0.5
"""


@pytest.mark.parametrize("path", [*FILES, *(ROOT / "probes" / "remedies").glob("*.py")], ids=lambda path: path.name)
def test_probes_are_executable_and_nothing_else_is(path: Path) -> None:
    """Mode and shebang, as a clone has them; what probes share and what they recommend are no programs."""
    is_program = path in PROBES
    assert bool(path.stat().st_mode & 0o111) is is_program
    assert path.read_text("utf-8").startswith("#!/usr/bin/env python3\n") is is_program


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone: its own probes, and the package beside them."""
    folder = tmp_path / "clone"
    shutil.copytree(ROOT / "probes", folder / "probes", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("auditkit", "templates", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
    return folder


def run_there(clone: Path, *words: str) -> Ended:
    """The file as a program, with one Python on PATH, which has nothing of ours."""
    done = subprocess.run(
        [clone / "probes" / READS_SOURCE, *words],
        cwd=clone.parent,
        env={"PATH": str(clone / "bin"), "HOME": str(clone.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.process
def test_it_runs_in_the_clones_own_environment(clone: Path) -> None:
    """`.venv`, as the README makes it; what Python the shell has does not matter."""
    venv.create(clone / ".venv", with_pip=False, symlinks=True)
    (site,) = (clone / ".venv" / "lib").glob("python3*/site-packages")
    here = Path(sysconfig.get_path("purelib"))
    (site / "typer").symlink_to(here / "typer")
    (site / "dependencies.pth").write_text(f"{here}\n", encoding="utf-8")
    checkout = clone.parent / "checkout"
    checkout.mkdir()
    (checkout / "stats.py").write_text(DEFECTIVE, encoding="utf-8")
    ended = run_there(clone, "--checkout", str(checkout))
    assert (ended.code, ended.stderr) == (1, "")
    assert "stats.py:6" in ended.stdout


@pytest.mark.process
def test_without_any_interpreter_one_line_says_what_to_do(clone: Path) -> None:
    ended = run_there(clone, "--checkout", ".")
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.splitlines() == [
        f"error: no Python with auditkit was found; install it: cd {clone} && python3 -m venv .venv "
        "&& .venv/bin/pip install ."
    ]
    told = run_there(clone, "--help").stdout
    assert told.startswith("Does a loop over tensors read each of them back")
    assert ("\n\nHow: " in told, "\n\nLimits: " in told) == (True, True)
