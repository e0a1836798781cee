"""What the tracer calls the place of an overflow, and which elements a snapshot compares."""

from __future__ import annotations

import math

import torch

from auditkit.worker.feed.given import GroupInput
from auditkit.worker.measure.mutation import Snapshot
from auditkit.worker.measure.tracing import becomes_diagonal, becomes_nonfinite


def test_an_overflow_begins_where_finite_values_go_in() -> None:
    """An operator that only hands an infinity on is not to blame."""
    finite, overflown = torch.ones(3), torch.tensor([1.0, math.inf])
    assert becomes_nonfinite([finite], [overflown])
    assert not becomes_nonfinite([overflown], [overflown])
    assert not becomes_nonfinite([finite], [finite])


def test_a_change_of_the_last_element_alone_is_a_change_of_values() -> None:
    grads = [torch.ones(5), torch.ones(2, 3)]
    watched = Snapshot([GroupInput(None, grads)])
    assert watched.changes() == []
    grads[1][-1, -1] = 2.0
    assert [change.kind for change in watched.changes()] == ["values"]


def test_memory_that_nobody_has_written_to_makes_no_diagonal_matrix() -> None:
    """`torch.empty` may be handed what a diagonal matrix has left behind."""
    is_made, values, matrices = becomes_diagonal(2, 3), torch.ones(2, 3), torch.eye(3).expand(2, 3, 3)
    assert is_made([values], [matrices])
    assert not is_made([], [matrices])
