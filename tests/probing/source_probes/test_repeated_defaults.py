"""Repeated defaults: which signatures belong together, and which numbers are settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source_helpers import DEFAULT, found

pytestmark = pytest.mark.process

TWO = "def first(norm, limit={value}):\n    return norm > limit\n\n\ndef second(norm, limit={value}):\n    pass\n"
USED = "\n\ndef exceeds(norm, limit):\n    return norm > limit\n"


def test_two_signatures_of_one_module_repeat_a_number(tmp_path: Path) -> None:
    """Named after the parameter and the number; the location is the first default's line."""
    (result,) = found(tmp_path, {"pkg/norms.py": TWO.format(value="1e-7")}, DEFAULT).values()
    assert (result.target, result.severity) == ("pkg:limit=1e-07", "P4")
    assert (result.location.file, result.location.line, result.location.function) == ("pkg/norms.py", 1, "first")
    assert result.message == "2 signatures repeat the same default: first (norms.py:1), second (norms.py:5)"


@pytest.mark.parametrize("value", ["0", "1.0", "-1", "2", "None", "True", "'text'", "LIMIT", "()"])
def test_plain_numbers_and_other_values_are_none(value: str, tmp_path: Path) -> None:
    assert found(tmp_path, {"norms.py": TWO.format(value=value)}, DEFAULT) == {}


@pytest.mark.parametrize(
    "parameter", ["dim", "seed", "gamma", "lr", "betas", "weight_decay", "batch_size", "norm_type"]
)
def test_what_a_run_is_tuned_with_is_none(parameter: str, tmp_path: Path) -> None:
    source = TWO.format(value="0.99").replace("limit", parameter)
    assert found(tmp_path, {"norms.py": source}, DEFAULT) == {}


@pytest.mark.parametrize("name", ["max_norm", "atol", "clip_eps", "exploding_threshold", "vanishing_norm", "min_grad"])
def test_a_name_says_threshold(name: str, tmp_path: Path) -> None:
    assert len(found(tmp_path, {"norms.py": TWO.format(value="0.5").replace("limit", name)}, DEFAULT)) == 1


@pytest.mark.parametrize(
    ("test", "count"),
    [
        ("norm > limit", 1),
        ("norm.clamp(max=limit)", 1),
        ("torch.nn.utils.clip_grad_norm_(norm, limit)", 1),
        ("self._limit < norm", 1),
        ("norm / (limit + norm)", 0),
        ("limit < 0", 0),
        ("limit is not norm", 0),
    ],
)
def test_code_decides_by_a_threshold(test: str, count: int, tmp_path: Path) -> None:
    """Adam's eps is added, and its range is checked: nothing is decided by it."""
    assert len(found(tmp_path, {"norms.py": TWO.format(value="7").replace("norm > limit", test)}, DEFAULT)) == count


def test_another_number_is_another_setting(tmp_path: Path) -> None:
    source = "def first(limit=10):\n    pass\n\n\ndef second(limit=20):\n    pass\n" + USED
    assert found(tmp_path, {"norms.py": source}, DEFAULT) == {}


def test_a_class_counts_as_its_constructor(tmp_path: Path) -> None:
    """A dataclass's fields are defaults of its `__init__`; one method in two classes is an interface."""
    source = (
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Bounds:\n    limit: float = 100.0\n\n\n"
        "def collect(grads, limit=100.0):\n    return Bounds(limit)\n"
    ) + USED
    (result,) = found(tmp_path / "data", {"norms.py": source}, DEFAULT).values()
    assert "Bounds (norms.py:6), collect (norms.py:9)" in result.message
    interface = (
        "class A:\n    def step(self, limit=100.0):\n        pass\n\n\n"
        "class B:\n    def step(self, limit=100.0):\n        pass\n"
    ) + USED
    assert found(tmp_path / "interface", {"norms.py": interface}, DEFAULT) == {}


def test_overloads_and_tests_do_not_count(tmp_path: Path) -> None:
    stubs = "@overload\ndef f(limit=100.0): ...\n@overload\ndef f(limit=100.0, x=None): ...\n"
    source = f"from typing import overload\n{stubs}def f(limit=100.0, x=None):\n    pass\n{USED}"
    assert found(tmp_path, {"norms.py": source, "tests/test_norms.py": TWO.format(value="100.0")}, DEFAULT) == {}


def test_the_policy_says_how_many_are_too_many(tmp_path: Path) -> None:
    assert found(tmp_path, {"norms.py": TWO.format(value="7")}, DEFAULT, signatures=3) == {}
