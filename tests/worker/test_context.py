"""The face that a probe is handed: its names stay, and collaborators share no state by accident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from auditkit.worker.measure import ranks


def norm(grads: list[torch.Tensor]) -> float:
    if not grads[0].numel():
        raise ValueError
    return float(torch.linalg.vector_norm(torch.stack([grad.norm() for grad in grads])))


def context_on(device: str) -> Context:
    caller = Caller(norm, None, "", {})
    return Context(find_plan(caller, {}), caller, device, SourceRoots(str(Path(__file__).parent)), {})


def test_ranks_that_find_too_few_gpus_move_to_the_host_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurements name the host from then on; the calls of this process stay where they were asked."""
    ran: list[tuple[int, str]] = []

    def run_ranks(world_size: int, body: Any, limit_s: float, device: str) -> list:
        ran.append((world_size, device))
        return []

    monkeypatch.setattr(ranks, "why_not", lambda device, count: "too few" if device == "cuda" and count > 2 else None)
    monkeypatch.setattr(ranks, "run_ranks", run_ranks)
    context = context_on("cuda")
    asked = []
    for world_size in (2, 4, 2):
        context.ranks(world_size, lambda rank: iter(()))
        asked.append((context.device, context.measurement("norm", 1.0, "norm")["case"]["device"]))
    assert ran == [(2, "cuda"), (4, "cpu"), (2, "cpu")]
    assert asked == [("cuda", "cuda"), ("cpu", "cpu"), ("cpu", "cpu")]
    assert context._calls.device == "cuda"


def test_an_exception_without_a_message_names_its_function() -> None:
    context = context_on("cpu")
    with pytest.raises(context.TargetRaised, match="ValueError: no message, in norm"):
        context.answer([torch.zeros(0)])


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({4: 4, 16: 10, 64: 10, 256: 10}, "about 10"),
        ({4: 10, 16: 10, 64: 10}, "10"),
        ({4: 13, 16: 49, 64: 193}, "3n+1"),
        ({4: 4, 16: 10, 64: 12}, "about 0.1333n+3.467"),
    ],
)
def test_counts_that_stay_the_same_do_not_grow(counts: dict[int, int], text: str) -> None:
    found = context_on("cpu").law("sync_count_law", counts)
    assert (found["value"] == 0, found["case"]["law"]) == ("n" not in text, text)
    assert found["case"]["exact"] == (not text.startswith("about "))
