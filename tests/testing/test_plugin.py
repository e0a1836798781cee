"""The fixture and the marker `auditkit`, as a stranger's tests meet them; and the recipes of docs/testing*.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.project_files import ROOT, Ended, run_program

pytestmark = pytest.mark.process

PAGES = [ROOT / "docs" / name for name in ("testing.md", "testing-steps.md")]
TRAINER = """
import torch


def sound(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)))


def waiting(parameters):
    return [p.grad.norm().item() for p in parameters if p.grad is not None]
"""
TESTS = """
import pytest

SYNCS = "syncs_grow_with_tensors"


def named(name):
    import trainer  # imports torch

    return getattr(trainer, name)


def test_sound(auditkit):
    auditkit.check(named("sound")).syncs(at_most=0)


def test_waiting(auditkit):
    auditkit.check(named("waiting")).syncs(at_most=1)


def test_no_answer(auditkit):
    auditkit.check(named("sound")).passes("clip_destroys_gradients")


@pytest.mark.auditkit(probes=[SYNCS])
def test_marked_sound():
    return named("sound")


@pytest.mark.auditkit(probes=[SYNCS], fail_on="P3")
def test_marked_waiting():
    return named("waiting")


@pytest.mark.auditkit(probes=[SYNCS], fail_on="P1")
@pytest.mark.parametrize("name", ["sound", "waiting"])
def test_marked_below(name):
    return named(name)


@pytest.mark.auditkit("clip_destroys_gradients")
def test_marked_no_answer():
    return named("sound")


@pytest.mark.auditkit(probe=SYNCS)
def test_marked_wrongly():
    return named("sound")


@pytest.mark.auditkit(probes="syncs_grow_with_tensor")
def test_marked_unknown():
    return named("sound")


@pytest.mark.auditkit
def test_marked_nothing():
    pass


def test_block(auditkit):
    import torch

    with auditkit.no_sync(), auditkit.no_allocation():
        assert torch.overrides._get_current_function_mode_stack()


def test_of_others():
    pass
"""
SAYS_WHAT_IS_LOADED = """
import sys


def pytest_unconfigure():
    print("loaded:", *(name for name in ("torch", "numpy", "auditkit.testing") if name in sys.modules))
"""


UNUSED = """
from auditkit.testing import check, no_sync
from trainer import sound


def test_no_law(auditkit):
    auditkit.check(sound)


def test_no_block():
    no_sync()


def test_of_its_own():
    check(sound)
    raise RuntimeError("of its own")


def test_nothing():
    pass
"""


def pytest_in(folder: Path, *words: str) -> Ended:
    """A run of pytest with the plugin and no other."""
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    options = ["-q", "-p", "auditkit.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers", "-rs"]
    return run_program([sys.executable, "-m", "pytest", *options, *words], cwd=folder, environment=alone)


def blocks(page: str) -> dict[str, str]:
    """The page's files by their names."""
    return dict(re.findall(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nfilterwarnings = error\n", encoding="utf-8")
    (tmp_path / "trainer.py").write_text(TRAINER, encoding="utf-8")
    (tmp_path / "test_trainer.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(SAYS_WHAT_IS_LOADED, encoding="utf-8")
    return tmp_path


@pytest.mark.acceptance
def test_the_recipes_of_the_page_run_and_its_failure_is_what_pytest_shows(tmp_path: Path) -> None:
    page = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    files = blocks(page)
    assert list(files) == ["trainer.py", "test_laws.py", "test_step.py", "test_plain.py"]
    for name, code in files.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    (call,) = re.findall(r"^`(auditkit\.check\(.*?)` fails:$", page, re.MULTILINE)
    failing = f"from trainer import layer_norms\n\n\ndef test_failure(auditkit):\n    {call}\n"
    (tmp_path / "test_failure.py").write_text(failing, encoding="utf-8")
    ended = pytest_in(tmp_path, "-o", "pythonpath=.")
    assert ended.stdout.splitlines()[-1].startswith("1 failed, 5 passed"), ended.stdout
    (shown,) = re.findall(r"^<!-- output -->\n```text\n(.*?)\n```$", page, re.DOTALL | re.MULTILINE)
    said = "\n".join(line[8:] for line in ended.stdout.splitlines() if line.startswith("E"))
    assert f"GuardFailed: {shown.splitlines()[0]}" in ended.stdout
    assert said.endswith("\n".join(shown.splitlines()[1:]))


def test_each_outcome_is_pytests_own(project: Path) -> None:
    """Passed, failed and skipped with a reason; failures show the test's line and none of ours.

    A guard that checks nothing fails its test.
    """
    (project / "test_unused.py").write_text(UNUSED, encoding="utf-8")
    ended = pytest_in(project, "-rA")
    outcomes = dict(re.findall(r"^(?:PASSED|FAILED) test_trainer\.py::(\S+)( - .*)?$", ended.stdout, re.MULTILINE))
    passed = {"test_sound", "test_marked_sound", "test_block", "test_of_others"}
    passed |= {"test_marked_below[sound]", "test_marked_below[waiting]"}
    failed = {"test_waiting", *(f"test_marked_{name}" for name in ("waiting", "wrongly", "unknown", "nothing"))}
    assert {name for name, why in outcomes.items() if not why} == passed, ended.stdout
    assert {name for name, why in outcomes.items() if why} == failed
    for said in (
        '>       auditkit.check(named("waiting")).syncs(at_most=1)',
        "256 synchronizations at 256 tensors; at most 1 allowed",
        "P2        syncs_grow_with_tensors: synchronizations per call: n for n tensors (256 at 256)",
        "trainer.py:11 in waiting",
        "the marker auditkit knows no 'probe': probes, fail_on, contract",
        "hint: did you mean syncs_grow_with_tensors",
        "a test marked with auditkit returns the collector to check",
    ):
        assert said in ended.stdout, ended.stdout
    skipped = re.findall(r"^SKIPPED \[\d\] (\S+): (.*)$", ended.stdout, re.MULTILINE)
    assert len(skipped) == 2
    assert {why.partition(":")[0] for _, why in skipped} == {"clip_destroys_gradients"}
    assert "testing/" not in ended.stdout, "no file of ours is shown"
    assert len(re.findall(r"^FAILED test_unused\.py", ended.stdout, re.MULTILINE)) == 3, ended.stdout
    assert len(re.findall(r"^PASSED test_unused\.py", ended.stdout, re.MULTILINE)) == 1
    law = "a guard checks nothing: check(trainer:sound) names no law: add .syncs(at_most=0)"
    for said in (law, "no_sync() is not a block", "RuntimeError: of its own"):
        assert said in ended.stdout, ended.stdout
    assert ended.stdout.splitlines()[-1] == "loaded: torch numpy auditkit.testing"  # the control of the test below


def test_collecting_imports_no_torch(project: Path) -> None:
    ended = pytest_in(project, "--collect-only")
    assert (ended.code, ended.stdout.splitlines()[-1]) == (0, "loaded:")
