"""What a collector says of its synchronizations is held against their count, and what its result reads is counted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.promises import sync_promise
from tests.probes.in_process import ask, ask_caller
from tests.probing_helpers import ASYNC, SYNCS


def norm_of(grads: Any) -> torch.Tensor:
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in grads]))


def documented(text: str, reads: int) -> Callable:
    """A collector with `text` as its docstring that reads so often."""

    def collect(grads: Any) -> Any:
        norm = norm_of(grads)
        values = [norm.item() for _ in range(reads)]
        return values[0] if values else norm

    collect.__doc__ = text
    return collect


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Async-safe: no .item().", 0),
        ("Runs without any sync points.", 0),
        ("Does not synchronize.", 0),
        ("Everything is read with a single GPU sync at the end.", 1),
        ("Exactly one device-to-host sync.", 1),
        ("Total norm.", None),
        ("Collects asynchronously; the asynchronous twin of `norm`.", None),
        ("One sync per tensor.", None),
        ("One sync per call.", 1),
        ("The norm of this rank: no synchronization across ranks.", None),
        ("Runs without synchronizing gradients.", None),
        ("Does not synchronize with other workers.", None),
        ("Costs more than one sync.", None),
        ("Unlike the other one, which has no sync points, this one waits.", None),
        (None, None),
    ],
)
def test_only_a_number_of_synchronisations_is_a_promise(text: str | None, count: int | None) -> None:
    promise = sync_promise(documented(text, 0))  # type: ignore[arg-type]
    assert (promise.sync_count if promise else None) == count


@pytest.mark.parametrize(
    ("text", "reads", "outcome"),
    [
        ("One sync for all of it.", 1, "not_reproduced"),
        ("One sync for all of it.", 3, "reproduced"),
        ("Runs without sync points.", 1, "reproduced"),
        ("An asynchronous collector.", 1, "not_applicable"),
    ],
)
def test_a_docstring_is_held_to_its_number(text: str, reads: int, outcome: str) -> None:
    assert ask(ASYNC, documented(text, reads)).outcome == outcome


def three_reads(grads: Any) -> dict:
    """The norm, the largest and the smallest.

    Costs one sync.
    """
    norms = torch.stack([torch.linalg.vector_norm(grad) for grad in grads])
    return {"norm": norms.norm().item(), "max": norms.max().item(), "min": norms.min().item()}


def test_the_message_names_the_promise_and_its_line() -> None:
    answer = ask(ASYNC, three_reads)
    line = three_reads.__code__.co_firstlineno + 3
    assert answer.message == (
        f'syncs in the collecting step: 3 at 4 tensors; promised: 1, by its docstring ("one sync", line {line})'
    )
    assert answer.line == line + 3


class Lazy:
    """Its tensors stay on the device until a property is asked."""

    def __init__(self, norms: torch.Tensor) -> None:
        self._norms = norms

    @property
    def grad_norm(self) -> float:
        return self._norms.norm().item()

    @functools.cached_property
    def largest(self) -> float:
        return max(norm.item() for norm in self._norms)


def lazily(grads: Any) -> Lazy:
    return Lazy(torch.stack([torch.linalg.vector_norm(grad) for grad in grads]))


def lazily_async(grads: Any) -> Lazy:
    return lazily(grads)


def test_what_the_properties_of_an_answer_read_belongs_to_the_call() -> None:
    """The step alone waits for nothing: that it is asynchronous stays true."""
    answer = ask(SYNCS, lazily)
    assert (answer.outcome, answer.values("sync_count", tensors=64)) == ("reproduced", [65])
    assert answer.line == Lazy.largest.func.__code__.co_firstlineno + 2
    assert ask(ASYNC, lazily_async).outcome == "not_reproduced"


def reads_at_once(grads: Any) -> dict:
    return {"norm": norm_of(grads).item()}


def stays_on_the_device(grads: Any) -> dict:
    norm = norm_of(grads)
    return {"norm": norm, "is_small": norm.item() < 1.0}


@pytest.mark.parametrize(
    ("collect", "finish", "outcome"),
    [
        (reads_at_once, lambda pending: {"grad_norm": pending["norm"]}, "not_applicable"),
        (stays_on_the_device, lambda pending: {"grad_norm": pending["norm"].item()}, "reproduced"),
        (
            lambda grads: {"norm": norm_of(grads)},
            lambda pending: {"grad_norm": pending["norm"].item()},
            "not_reproduced",
        ),
    ],
    ids=["only the first step reads", "both steps read", "only the second step reads"],
)
def test_a_pair_is_asynchronous_where_its_second_step_reads(collect: Any, finish: Any, outcome: str) -> None:
    caller = Caller(collect, None, "", {}, finish)
    assert ask_caller(ASYNC, caller).outcome == outcome
