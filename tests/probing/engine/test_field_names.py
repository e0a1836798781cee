"""A message names the field that it judges, where the answer has several."""

from __future__ import annotations

import pytest

from tests.probing_helpers import OVERFLOW, TARGETS, UNDERFLOW, run_probes

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("function", "words"), [("guessed:squared_total", "the norm (total) "), ("guessed:squared_norm", "the norm ")]
)
def test_the_norm_is_named_by_its_field(function: str, words: str) -> None:
    overflow, underflow = run_probes(TARGETS / "guessed", function, [OVERFLOW, UNDERFLOW]).results
    assert overflow.message.startswith(words + "breaks at 256 in float16 and at 1.84e+19 in ")
    assert words + "of " in underflow.message
