"""Real ranks are forks: what the process did before must not keep them from an answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from auditkit.worker.measure.ranks import Message, run_ranks

pytestmark = pytest.mark.process


def large_sum(rank: int) -> Iterator[Message]:
    yield {"sum": torch.ones(4_000_000).exp().sum().item() > 0}


def test_ranks_of_a_process_that_used_openmp_answer() -> None:
    """OpenMP's threads do not survive a fork: a rank that waits for them hangs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        next(large_sum(0))
        assert run_ranks(2, large_sum, 20.0) == [[{"sum": True}], [{"sum": True}]]
    finally:
        torch.set_num_threads(threads)
