"""`auditkit probe new`: what it writes runs at once, through the command line, in a real worker."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.project_files import auditkit, run_program

pytestmark = pytest.mark.acceptance

OK, FINDINGS = 0, 1
CLAIM = "norm_is_cut_off"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    ended = auditkit("probe", "new", CLAIM, cwd=folder)
    assert (ended.code, ended.stderr) == (OK, "")
    lines = ended.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["wrote"] * 4 + ["1.", "2.", "3."]
    assert all((folder / line.removeprefix("wrote ")).is_file() for line in lines[:4])
    return folder


def test_its_own_test_is_red_for_a_probe_that_finds_nothing(place: Path, tmp_path: Path) -> None:
    """The command of the second step, as it is printed; the sound specimen is in the defective one's place, too.

    The next test shows that the probe finds the defective one.
    """
    shutil.copytree(place / "probes", tmp_path / "probes")
    specimens = tmp_path / "probes" / "specimens" / CLAIM
    (specimens / "defective.py").write_text((specimens / "sound.py").read_text("utf-8"), encoding="utf-8")
    ended = run_program([sys.executable, "-m", "pytest", "-q", f"probes/tests/test_{CLAIM}.py"], cwd=tmp_path)
    assert ended.code == 1
    assert "1 failed, 1 passed" in ended.stdout


def test_it_runs_alone(place: Path) -> None:
    """As `python probes/CLAIM.py`, like every probe; the finding's line is in the specimen."""
    words = ["--checkout", f"probes/specimens/{CLAIM}", "--target", "defective:grad_norm"]
    ended = run_program([sys.executable, f"probes/{CLAIM}.py", *words], cwd=place)
    notes = ended.stderr.splitlines()
    assert (ended.code, [line for line in notes if "auditkit ran the code of" not in line]) == (FINDINGS, [])
    assert "P2  defective.py:6 in grad_norm\n" in ended.stdout
    assert f"{CLAIM}: gradients of 16 have the norm 1000, not 1024" in ended.stdout
