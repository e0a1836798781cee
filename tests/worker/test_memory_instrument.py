"""Peak bytes: exact on toys whose allocations are known, where a dispatch mode is blind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from auditkit.worker.measure.memory import held_bytes, peak_bytes, python_peak_bytes

TENSORS, ELEMENTS = 10, 100_000
GRADIENT_BYTES = TENSORS * ELEMENTS * 4


def make_grads() -> list[torch.Tensor]:
    return [torch.ones(ELEMENTS) for _ in range(TENSORS)]


def cat_and_count(grads: list[torch.Tensor]) -> torch.Tensor:
    """float32 copy (4 bytes an element), bool mask (1), int64 copy of the mask inside sum (8): 13 of 4."""
    flat = torch.cat(grads)
    return torch.isnan(flat).sum()


def double_list(grads: list[torch.Tensor]) -> list[torch.Tensor]:
    return [grad.double() for grad in grads]


def square_each(grads: list[torch.Tensor]) -> torch.Tensor:
    return sum(grad.pow(2).sum() for grad in grads)


@pytest.mark.parametrize(
    ("function", "share"),
    [
        (cat_and_count, 3.25),
        (double_list, 2.0),
        (square_each, 1 / TENSORS),
        (lambda grads: torch.cat(grads), 1.0),
        (lambda grads: [grad.view(-1) for grad in grads], 0.0),
        (lambda grads: [grad.mul_(1.0) for grad in grads], 0.0),
    ],
    ids=["cat and count", "double list", "square of each", "cat", "views", "in place"],
)
def test_the_peak_is_the_allocators(function: Callable, share: float) -> None:
    """To within the few hundred bytes of scalars: every element that is held counts, wherever it is made."""
    grads = make_grads()
    assert peak_bytes(lambda: function(grads), "cpu") == pytest.approx(share * GRADIENT_BYTES, abs=1024)


def test_numpy_copies_are_counted_apart() -> None:
    """The allocator does not see them, tracemalloc does."""
    grads = make_grads()

    def copies() -> list[Any]:
        return [grad.numpy().astype(np.float64) for grad in grads]

    assert peak_bytes(copies, "cpu") < 4096
    assert python_peak_bytes(copies, "cpu") == pytest.approx(2 * GRADIENT_BYTES, rel=0.01)
    assert python_peak_bytes(lambda: [grad.numpy() for grad in grads], "cpu") < 100_000


def test_the_release_of_an_older_block_is_not_counted() -> None:
    """The profiler reports the release of a block that an earlier recording saw, with the size of that time."""
    older: list[torch.Tensor] = []
    assert peak_bytes(lambda: older.append(torch.empty(2 << 20, dtype=torch.uint8)), "cpu") == 2 << 20
    assert held_bytes(older.clear, (1, 2), "cpu") == {1: 0, 2: 0}
    assert peak_bytes(lambda: older.append(torch.empty(2 << 20, dtype=torch.uint8)), "cpu") == 2 << 20

    def replace() -> None:
        older.clear()
        older.append(torch.empty(1 << 20, dtype=torch.uint8))

    assert peak_bytes(replace, "cpu") == 1 << 20
