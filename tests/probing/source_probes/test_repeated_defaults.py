"""Repeated defaults: which signatures belong together, and which numbers are settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source_helpers import DEFAULT, found

pytestmark = pytest.mark.process

TWO = "def first(norm, limit={value}):\n    return norm > limit\n\n\ndef second(norm, limit={value}):\n    pass\n"


@pytest.mark.parametrize("value", ["0", "-1", "None", "True", "LIMIT"])
def test_plain_numbers_and_other_values_are_none(value: str, tmp_path: Path) -> None:
    assert found(tmp_path, {"norms.py": TWO.format(value=value)}, DEFAULT) == {}


@pytest.mark.parametrize("parameter", ["lr", "weight_decay", "norm_type"])
def test_what_a_run_is_tuned_with_is_none(parameter: str, tmp_path: Path) -> None:
    source = TWO.format(value="0.99").replace("limit", parameter)
    assert found(tmp_path, {"norms.py": source}, DEFAULT) == {}


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
