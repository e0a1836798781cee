"""A result that stays the first call's is found, wherever it is kept; what remembers on purpose is not."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from tests.probes.in_process import ask
from tests.probing_helpers import CACHED, OVERFLOW

_KEPT: dict[str, float] = {}
_known: float | None = None


def norm_of(params: Any) -> float:
    return float(torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in params])))


@functools.cache
def keyed_by_the_model(model: torch.nn.Module) -> float:
    return norm_of(list(model.parameters()))


def kept_in_a_dictionary(params: Any) -> dict:
    if "norm" not in _KEPT:
        _KEPT["norm"] = norm_of(params)
    return {"grad_norm": _KEPT["norm"], "layers": len(list(params))}


def kept_in_a_name(params: Any) -> float:
    global _known
    if _known is None:
        _known = norm_of(params)
    return _known


def kept_by_itself(params: Any) -> float:
    if not hasattr(kept_by_itself, "norm"):
        kept_by_itself.norm = norm_of(params)
    return kept_by_itself.norm


def kept_and_squared(params: Any) -> float:
    if "squared" not in _KEPT:
        _KEPT["squared"] = float(sum(p.grad.square().sum() for p in params)) ** 0.5
    return _KEPT["squared"]


class Keeper:
    _known: float | None = None

    def __init__(self) -> None:
        self._kept: Any = None
        self.calls = 0
        self.largest = 0.0
        self.mean = 0.0

    @classmethod
    def of_the_class(cls, grads: Any) -> float:
        if cls._known is None:
            cls._known = torch.stack([grad.norm() for grad in grads]).norm().item()
        return cls._known

    def once(self, grads: Any) -> dict:
        self._kept = self._kept or torch.stack([grad.norm() for grad in grads]).norm().item()
        return {"grad_norm": self._kept}

    def checked_once(self, grads: Any) -> dict:
        if self._kept is None:
            self._kept = all(bool(grad.isfinite().all()) for grad in grads)
        return {"grad_norm": torch.stack([grad.norm() for grad in grads]).norm().item(), "is_finite": self._kept}

    def every_eighth(self, grads: Any) -> float:
        if self.calls % 8 == 0:
            self._kept = torch.stack([grad.norm() for grad in grads]).norm().item()
        self.calls += 1
        return self._kept

    def one_late(self, grads: Any) -> float:
        now = torch.stack([grad.norm() for grad in grads]).norm().item()
        before, self._kept = self._kept, now
        return now if before is None else before

    def peak(self, grads: Any) -> float:
        self.largest = max(self.largest, torch.stack([grad.norm() for grad in grads]).norm().item())
        return self.largest

    def smoothed(self, grads: Any) -> float:
        now = torch.stack([grad.norm() for grad in grads]).norm().item()
        self.mean = 0.9 * (self.mean or now) + 0.1 * now
        return self.mean


@pytest.mark.parametrize("function", [keyed_by_the_model, kept_in_a_dictionary, kept_in_a_name, kept_by_itself])
def test_an_answer_that_is_kept_outside_of_an_object_is_found(function: Any) -> None:
    answer = ask(CACHED, function)
    assert (answer.said, ": 7.48761 instead of 50.2256" in answer.message) == ("reproduced P1", True)


@pytest.mark.parametrize(
    ("method", "what"),
    [
        *(("once", "grad_norm"), ("checked_once", "is_finite"), ("of_the_class", "answer")),
        *((late, "") for late in ("every_eighth", "one_late", "peak", "smoothed")),
    ],
)
def test_what_is_late_or_remembers_on_purpose_is_not_kept(method: str, what: str) -> None:
    answer = ask(CACHED, getattr(Keeper, method), owner=Keeper)
    assert answer.outcome == ("reproduced" if what else "not_reproduced")
    assert not what or f"the first one's {what}: " in answer.message


def test_the_other_probes_ask_first_calls_of_what_is_kept_in_a_module() -> None:
    """Otherwise the first answer would pass, or fail, all that comes after it."""
    answer = ask(OVERFLOW, kept_and_squared)
    assert answer.message.startswith("the norm breaks at 256 in ")


class StepKeeper:
    def __init__(self) -> None:
        self._kept: tuple[int, float] | None = None

    def of_this_step(self, grads: Any, step: int) -> float:
        if self._kept is None or self._kept[0] != step:
            self._kept = (step, torch.stack([grad.norm() for grad in grads]).norm().item())
        return self._kept[1]

    def of_the_first_step(self, grads: Any, step: int = 0) -> float:
        self._kept = self._kept or (step, torch.stack([grad.norm() for grad in grads]).norm().item())
        return self._kept[1]

    def every_hundredth(self, grads: Any, global_step: int) -> float:
        if self._kept is None or global_step % 100 == 0:
            self._kept = (global_step, torch.stack([grad.norm() for grad in grads]).norm().item())
        return self._kept[1]


@pytest.mark.parametrize(
    ("method", "outcome"),
    [("of_this_step", "not_reproduced"), ("of_the_first_step", "reproduced"), ("every_hundredth", "not_reproduced")],
)
def test_a_later_call_is_a_later_step(method: str, outcome: str) -> None:
    assert ask(CACHED, getattr(StepKeeper, method), owner=StepKeeper).outcome == outcome
