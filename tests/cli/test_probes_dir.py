"""Probes of the user's own: a folder that auditkit.yaml names holds probes like ours, in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.project_files import Ended, auditkit
from tests.verify_helpers import git

pytestmark = pytest.mark.acceptance

OK, FINDINGS, BAD_INPUT = 0, 1, 2
CLAIM = "norm_is_cut_off"
STATS = """
import torch


def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
    return min(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item(), 1e3)
"""
NAMED = ("--config", "auditkit.yaml")
"""A file of probes is a program: only a configuration that the user names may name one."""
CONFIG = """\
probes_dir: checks
targets:
  - {name: norm, call: "stats:grad_norm", contract: grad_norm, takes: parameters}
"""


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    """A git checkout with a target, a configuration, and a probe of its own in `checks`."""
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "stats.py").write_text(STATS, encoding="utf-8")
    (folder / "auditkit.yaml").write_text(CONFIG, encoding="utf-8")
    assert auditkit("probe", "new", CLAIM, *NAMED, cwd=folder).code == OK
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        git(folder, *words)
    return folder


def rewrite(trainer: Path, old: str, new: str) -> None:
    """Change the trainer's own probe."""
    path = trainer / "checks" / f"{CLAIM}.py"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def make_stable(trainer: Path) -> None:
    rewrite(trainer, '"lifecycle": "experimental"', '"lifecycle": "stable"')


def results(ended: Ended) -> list[tuple[str, str]]:
    return [(result["probe"], result["outcome"]) for result in json.loads(ended.stdout)["results"]]


def test_an_experimental_probe_runs_only_when_it_is_named(trainer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole audit leaves it out; by name it runs; stable, it is asked with the others."""
    named = auditkit("audit", ".", "--probe", CLAIM, "--device", "cpu", "--json", *NAMED, cwd=trainer)
    assert (named.code, results(named)) == (FINDINGS, [(CLAIM, "reproduced")])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # asked, and answered at once

    def asked() -> set[str]:
        return {
            probe for probe, _ in results(auditkit("audit", ".", "--device", "cuda", "--json", *NAMED, cwd=trainer))
        }

    before = asked()
    assert CLAIM not in before
    assert len(before) > 20
    make_stable(trainer)
    assert asked() == before | {CLAIM}


BROKEN = {
    "not Python": ("PROBE = {\n    'id': 'half'\n", "half.py:1: not valid Python: '{' was never closed"),
    "no definition": ("def measure(ctx):\n    yield\n", "half.py: no `PROBE = {...}` at the top level"),
    "no literal": ("\nPROBE = {[]: 1}\n", "half.py:2: PROBE must be a literal"),
    "another's name": ("", f"PROBE is called {CLAIM}, its file half"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_probe_is_one_clear_line(trainer: Path, kind: str) -> None:
    """It stops the run before anything is measured: a question that is not asked would look like a pass."""
    text, told = BROKEN[kind]
    if not text:
        text = (trainer / "checks" / f"{CLAIM}.py").read_text("utf-8")
        text = text.replace("PROBE = {", f'PROBE = {{"id": "{CLAIM}", ', 1)
    (trainer / "checks" / "half.py").write_text(text, encoding="utf-8")
    for words in (["probe", "list"], ["audit", "."]):
        ended = auditkit(*words, *NAMED, cwd=trainer)
        assert (ended.code, ended.stdout) == (BAD_INPUT, "")
        assert told in ended.stderr.splitlines()[0]
        assert str(Path("checks", "half.py")) in ended.stderr.splitlines()[0]
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import os; os._exit(0)", "SystemExit: os._exit(0)"),
        ("import os; os.fork() or os._exit(0); os.wait(); raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_a_judge_that_misbehaves_costs_one_result(trainer: Path, end: str, told: str) -> None:
    """A judge prints into a JSON document and ends the process: the document and the other probe's result stay."""
    rewrite(trainer, "    first, *others = measurements\n", f"    print('noise', flush=True); {end}\n")
    words = ["probe", "run", CLAIM, "launches_grow_with_tensors", "--target", "norm", "--device", "cpu", "--json"]
    ended = auditkit(*words, *NAMED, cwd=trainer)
    assert results(ended) == [(CLAIM, "error"), ("launches_grow_with_tensors", "not_reproduced")]
    assert json.loads(ended.stdout)["results"][0]["message"] == f"judging failed: {told}"
