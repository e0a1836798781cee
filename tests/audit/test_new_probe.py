"""A probe of the user's own: complete when it is written, written whole or not at all, and never over anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.audit.new_probe import new_probe
from auditkit.errors import BadInputError

CLAIM = "norm_is_cut_off"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.process
def test_what_is_written_pleases_a_linter(here: Path) -> None:
    """Nobody's first commit of a probe fails on our text."""
    new_probe(CLAIM)
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E,F,W,I,B", "--line-length", "120", "."]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "All checks passed!\n")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("NormIsCutOff", "did you mean norm_is_cut_off?"),
        ("the norm is cut off!", "did you mean the_norm_is_cut_off?"),
        ("../norm_is_cut_off", "did you mean norm_is_cut_off?"),
        ("", "name the defect that it would prove: norm_is_cut_off"),
    ],
)
def test_a_claim_that_is_no_name_is_refused(here: Path, name: str, hint: str) -> None:
    """With the nearest name, and nothing written."""
    with pytest.raises(BadInputError) as refused:
        new_probe(name)
    assert refused.value.hint == hint
    assert files_in(here) == []


def test_a_name_that_is_taken_is_refused(here: Path) -> None:
    """By a probe of ours, or by one of the configured folders."""
    with pytest.raises(BadInputError, match="there is a probe counts_are_rounded already"):
        new_probe("counts_are_rounded")
    (here / "auditkit.yaml").write_text("probes_dir: mine\n", encoding="utf-8")
    new_probe(CLAIM, config=Path("auditkit.yaml"))
    with pytest.raises(BadInputError, match=f"there is a probe {CLAIM} already"):
        new_probe(CLAIM, Path("elsewhere"), Path("auditkit.yaml"))
    assert not (here / "elsewhere").exists()
