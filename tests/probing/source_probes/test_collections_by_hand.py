"""Pairs of collecting and finishing functions: who produces a finisher's input."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source_helpers import COLLECT, found

pytestmark = pytest.mark.process

FINISH = (
    "def materialize_norms(pending):\n"
    "    return {'norm': pending['_squared'].item() ** 0.5, 'count': int(pending['_count'])}\n"
)
COLLECTING = {
    "returns a mapping": "def collect(grads):\n    return {'_squared': f(grads), '_count': len(grads)}\n",
    "fills a mapping": (
        "def collect(grads):\n    made = {'_squared': f(grads)}\n    made['_count'] = len(grads)\n    return made\n"
    ),
    "calls another": (
        "def collect(grads):\n    return _both(grads)\n\n\n"
        "def _both(grads):\n    return {'_squared': f(grads), '_count': len(grads)}\n"
    ),
    "is a method": (
        "class Collector:\n    def collect(self, grads):\n        return {'_squared': f(grads), '_count': len(grads)}\n"
    ),
    "keeps more": "def collect(grads):\n    return {'_squared': f(grads), '_count': len(grads), '_max': 0}\n",
}
LACKING = {
    "one key": "def collect(grads):\n    return {'_squared': f(grads)}\n",
    "a step of training": ("def train(model):\n    loss.backward()\n    return {'_squared': f(model), '_count': 1}\n"),
    "nothing": "",
}


@pytest.mark.parametrize("source", COLLECTING.values(), ids=COLLECTING)
def test_a_function_that_returns_what_is_asked_for_collects(source: str, tmp_path: Path) -> None:
    assert found(tmp_path, {"norms.py": FINISH, "collecting.py": source}, COLLECT) == {}


@pytest.mark.parametrize("source", LACKING.values(), ids=LACKING)
def test_what_lacks_a_key_or_trains_does_not_collect(source: str, tmp_path: Path) -> None:
    (result,) = found(tmp_path, {"norms.py": FINISH, "collecting.py": source}, COLLECT).values()
    assert (result.target, result.location.line, result.severity) == ("norms:materialize_norms", 1, "P3")
    assert "no public function returns its input (the keys _count, _squared)" in result.message
