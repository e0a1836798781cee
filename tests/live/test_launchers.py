"""`auditkit run` with frameworks that train for the user, with a compiler, and with pytest."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.project_files import auditkit, run_program

pytestmark = [pytest.mark.process, pytest.mark.acceptance]

PROGRAMS = Path(__file__).parent / "programs"
LAUNCHERS = {"accelerate": ["-m", "accelerate.commands.launch", "--cpu"], "lightning": [], "transformers": []}


@pytest.mark.parametrize("framework", LAUNCHERS)
def test_a_framework_that_trains_for_the_user(framework: str, tmp_path: Path) -> None:
    """With two micro-batches a step, nothing is reported; a layer that the optimizer misses is, at its line."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    start = [sys.executable, *LAUNCHERS[framework], str(PROGRAMS / "frameworks.py"), framework]
    right = auditkit("run", "--save", "right.json", "--", *start, cwd=tmp_path)
    wrong = auditkit("run", "--save", "wrong.json", "--", *start, "missing", cwd=tmp_path)
    assert (right.code, wrong.code) == (0, 0), right.stderr + wrong.stderr
    assert "CONTINUE: no finding in the watched steps." in right.stderr
    assert "watched 5 of 8 steps" in right.stderr
    results = json.loads((tmp_path / "wrong.json").read_text("utf-8"))["results"]
    found = [(each["probe"], each["severity"], each["location"]["function"]) for each in results if each["severity"]]
    assert found == [("optimizer_misses_parameters", "P0", "optimizer_of")]


@pytest.mark.slow
def test_compiled_code_is_left_alone(tmp_path: Path) -> None:
    """Graphs, graph breaks, losses and weights are those without auditkit; the report names what was not watched."""
    program = [sys.executable, str(PROGRAMS / "compiled.py")]
    plain = run_program(program, cwd=tmp_path)
    seen = auditkit("run", "--every", "2", "--", *program, cwd=tmp_path)
    assert (plain.code, seen.code) == (0, 0), seen.stderr
    assert seen.stdout == plain.stdout
    assert "watched 6 of 8 steps" in seen.stderr
    assert "NOT WATCHED 1 (compiled optimizer)" in seen.stderr
    assert "NOT WATCHED from then on (compiled training step)" in seen.stderr


def test_pytest_is_watched(tmp_path: Path) -> None:
    """A test that trains is a program like any other: its exit code is pytest's."""
    (tmp_path / "test_it.py").write_text(
        f"import runpy\n\ndef test_it():\n    runpy.run_path({str(PROGRAMS / 'trains.py')!r})['main']('')\n"
        "\ndef test_fails():\n    assert False\n",
        encoding="utf-8",
    )
    ended = auditkit("run", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert ended.code == 1
    assert "1 failed, 1 passed" in ended.stdout
    assert "watched 5 of 50 steps" in ended.stderr
