"""What a collector says of its synchronizations is held against their count, and what its result reads is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from auditkit.worker.feed.promises import sync_promise
from tests.probes.in_process import ask
from tests.probing_helpers import ASYNC


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
