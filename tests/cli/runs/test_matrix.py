"""`--python` and `--device` given several times: one table for people, one document for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from auditkit.model.schemas import schema
from tests.project_files import Ended, auditkit
from tests.second_interpreter import make_interpreter

pytestmark = pytest.mark.acceptance

FINDINGS, NOT_LOADED = 1, 5
OVERFLOW, LAUNCHES, ASYNC = (
    "norm_overflows_on_finite_grads", "launches_grow_with_tensors", "async_collect_synchronizes",
)  # fmt: skip
COLLECTORS = """
import sys

import torch


def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
    if "older" in sys.prefix:
        return sum((g * g).sum() for g in grads).sqrt().item()
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
"""
NORM = ("--target", "stats:grad_norm", "--contract", "grad_norm", "--takes", "parameters")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "stats.py").write_text(COLLECTORS, encoding="utf-8")
    (folder / "train.py").write_text("def train(model):\n    model.half()\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two interpreters in which the checkout's collector behaves differently."""
    folder = tmp_path_factory.mktemp("p")
    return make_interpreter(folder / "older"), make_interpreter(folder / "newer")


def run(checkout: Path, *words: object) -> Ended:
    probes = [word for probe in (OVERFLOW, LAUNCHES, ASYNC) for word in ("--probe", probe)]
    return auditkit("audit", checkout, *NORM, *probes, "--fix-time=0", "--tickets", checkout.parent / "tickets", *words)


def named(pythons: tuple[Path, Path]) -> list[object]:
    return [word for python in pythons for word in ("--python", python)]


@pytest.fixture(scope="module")
def for_people(checkout: Path, pythons: tuple[Path, Path]) -> Ended:
    return run(checkout, *named(pythons))


@pytest.fixture(scope="module")
def document(checkout: Path, pythons: tuple[Path, Path]) -> dict[str, Any]:
    ended = run(checkout, *named(pythons), "--json")
    assert (ended.code, ended.stderr) == (FINDINGS, "")
    loaded: dict[str, Any] = json.loads(ended.stdout)
    return loaded


@pytest.mark.slow
def test_one_table_shows_what_differs(for_people: Ended, pythons: tuple[Path, Path]) -> None:
    """The differences are named, and nothing is cut off by the pipe."""
    older, newer = (f"torch {arm}" for arm in _labels(for_people))
    lines = for_people.stdout.splitlines()
    assert for_people.code == FINDINGS
    assert (older.endswith(str(pythons[0])), newer.endswith(str(pythons[1]))) == (True, True)
    told = " ".join(for_people.stdout.partition("2 of 3 results differ between the arms:")[2].split())
    assert f"{OVERFLOW} on stats:grad_norm: P2 reproduced with {older}; not reproduced with {newer}" in told
    assert "Checked 1 function in 2 environments with 3 probes: 1 finding (1 P2)" in lines
    assert "What to do first:" in lines
    assert lines[-1].startswith("  auditkit ticket show B1-PT-01 --tickets ")
    assert "\x1b" not in for_people.stdout


def _labels(ended: Ended) -> list[str]:
    """The arms' names in the second line, without their common `torch `."""
    heading = ended.stdout.splitlines()[1].partition(": torch ")[2]
    return heading.partition(", measured on the CPU")[0].split(" and torch ")


def test_the_document_holds_every_arm(document: dict[str, Any], pythons: tuple[Path, Path]) -> None:
    """The old keys speak of all arms, `matrix` holds each one's own run, and the schema knows it all."""
    Draft202012Validator(schema("run")).validate(document)
    assert [arm["run"]["interpreter"] for arm in document["matrix"]] == [str(python) for python in pythons]
    assert [[result["outcome"] for result in arm["results"]] for arm in document["matrix"]] == [
        ["reproduced", "reproduced", "not_applicable"],
        ["not_reproduced", "not_reproduced", "not_applicable"],
    ]
    assert document["summary"] == {
        "reproduced": 2, "not_reproduced": 0, "not_applicable": 1, "unavailable": 0, "error": 0,
    }  # fmt: skip
    overflow = document["results"][0]
    assert [arm["outcome"] for arm in overflow["arms"]] == ["reproduced", "not_reproduced"]
    assert overflow["arm"] == document["matrix"][0]["arm"]
    assert len({result["fingerprint"] for result in document["results"]}) == 3


def test_an_arm_without_torch_is_shown(checkout: Path, pythons: tuple[Path, Path]) -> None:
    """Its reason is shown, and the exit code is the load failure's."""
    ended = run(checkout, "--python", pythons[1], "--python", "/bin/true")
    assert ended.code == NOT_LOADED
    assert "error (no_interpreter)" in ended.stdout
    assert "/bin/true is no Python" in ended.stdout
    assert ended.stderr.startswith("checking stats:grad_norm (1 of 1)\nerror: /bin/true: ")
