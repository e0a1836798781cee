"""The search for a way to feed a training step: what cannot change between two ways is not tried again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.base.refusals import CannotFeedError
from auditkit.worker.feed.caller import Caller
from auditkit.worker.steps.search import find_plan

ROOTS = SourceRoots(str(Path(__file__).parent))


class Trainer:
    """Its constructor fails whatever it is handed."""

    made = 0

    def __init__(self, model: Any) -> None:
        type(self).made += 1
        raise RuntimeError("no license")

    def step(self, batches: Any) -> None:
        """Never called on an object that the constructor made; on another one it reads what nobody knows."""
        self.unheard_of.backward()  # type: ignore[attr-defined]


def takes_a_batch(calls: list[int]) -> Callable[..., None]:
    def step(model: Any, batches: Any, optimizer: Any) -> None:
        calls.append(1)
        next(iter(batches))
        raise RuntimeError("this form is not read")

    return step


def test_constructor_that_fails_is_called_once() -> None:
    """Batches that nobody took and answers that no model gave make no difference."""
    with pytest.raises(CannotFeedError, match="no license"):
        find_plan(Caller(Trainer.step, Trainer, "step", {}), {}, ROOTS)
    assert Trainer.made == 1


def test_model_that_is_not_called_answers_in_one_way() -> None:
    """A step that fails on its batch is tried with each of nine batches, and not with seven answers to each."""
    calls: list[int] = []
    with pytest.raises(CannotFeedError, match="this form is not read"):
        find_plan(Caller(takes_a_batch(calls), None, "", {}), {}, ROOTS)
    assert len(calls) == 9
