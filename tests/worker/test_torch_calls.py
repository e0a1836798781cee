"""Which of torch's own functions a target calls, under any name, with what, and from which lines."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.context.torch_calls import torch_calls
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from tests.probing_helpers import TARGETS, load_target

FOLDER = TARGETS / "wrappers"
WRAPPERS = load_target(FOLDER / "wrappers.py")
LIMIT = {"max_norm": 1.0, "norm_type": 2.0}


def calls_of(function: Callable[..., Any], owner: type | None = None) -> dict[str, Any]:
    caller = Caller(function, owner, function.__name__, {})
    return torch_calls(find_plan(caller, {}), caller, SourceRoots(str(FOLDER)))


def line_of(text: str) -> int:
    lines = inspect.getsource(WRAPPERS).splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("total", {"get_total_norm": {"norm_type": 2.0}}),
        ("in_two_steps", {"get_total_norm": {"norm_type": 2.0}, "clip_grads_with_norm_": {"max_norm": 1.0}}),
        ("one_by_one", {"clip_grad_norm_": LIMIT}),
        ("in_two_groups", {"clip_grad_norm_": LIMIT}),
    ],
)
def test_what_is_called(name: str, functions: dict[str, Any]) -> None:
    """Once each, what torch calls itself left out; how it is to be done is the caller's own choice."""
    assert calls_of(getattr(WRAPPERS, name))["functions"] == functions


def test_the_lines_are_the_call_and_the_definition() -> None:
    """Of a method that hands on to another, under a name of the checkout's own."""
    found = calls_of(WRAPPERS.Trainer.clip, WRAPPERS.Trainer)
    assert found["functions"] == {"clip_grad_norm_": LIMIT}
    assert found["lines"] == [("wrappers.py", line_of("def clip(")), ("wrappers.py", line_of("return limit("))]


@pytest.mark.parametrize(
    "function",
    [WRAPPERS.alone, WRAPPERS.by_hand, WRAPPERS.logs_and_limits, nn.utils.get_total_norm, nn.utils.clip_grad_norm_],
)
def test_who_calls_none_answers_without_it_or_is_one(function: Callable[..., Any]) -> None:
    """The control of `logs_and_limits`, which calls torch's for a log alone, is `limits`."""
    assert calls_of(function) == {}
    assert nn.utils.get_total_norm([torch.full((4,), 3.0)]).item() == 6.0


def test_what_is_done_to_gradients_is_an_answer() -> None:
    """A wrapper that returns nothing, and limits to more than ordinary gradients have."""
    assert calls_of(WRAPPERS.limits)["functions"] == {"clip_grad_norm_": {"max_norm": 1e6, "norm_type": 2.0}}
