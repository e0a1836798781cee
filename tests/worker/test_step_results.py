"""Results of training steps: a right step equals its references in every case, a wrong one where it is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.feed.caller import Caller
from auditkit.worker.steps import search
from auditkit.worker.steps.results import Result, StepResults
from auditkit.worker.steps.runs import StepFeed, StepRuns

ROOTS = SourceRoots(str(Path(__file__).parent))
Case = tuple[str, str, int]
"""Limit, targets, micro-batches."""
CASES = {
    (limit, targets, count) for limit in ("none", "reached") for targets in ("equal", "unequal") for count in (1, 4)
}


def token_loss(model: Any, batch: Any, reduction: str = "mean") -> torch.Tensor:
    return functional.cross_entropy(
        model(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten(), reduction=reduction
    )


def weighed(model: Any, optimizer: Any, loader: Any, accum: int, max_norm: float) -> Any:
    norm, total = torch.zeros(()), 0
    for i, batch in enumerate(loader):
        token_loss(model, batch, "sum").backward()
        total += (batch["labels"] != -100).sum()
        if (i + 1) % accum == 0:
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.div_(total)
            norm, total = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm), 0
            if torch.isfinite(norm):
                optimizer.step()
            optimizer.zero_grad()
    return norm


def divided(model: Any, optimizer: Any, loader: Any, accum: int, max_norm: float) -> Any:
    norm = torch.zeros(())
    for i, batch in enumerate(loader):
        (token_loss(model, batch) / accum).backward()
        if (i + 1) % accum == 0:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            if torch.isfinite(norm):
                optimizer.step()
            optimizer.zero_grad()
    return norm


def divided_after_the_clip(model: Any, optimizer: Any, loader: Any, accum: int, max_norm: float) -> Any:
    norm, total = torch.zeros(()), 0
    for i, batch in enumerate(loader):
        token_loss(model, batch, "sum").backward()
        total += (batch["labels"] != -100).sum()
        if (i + 1) % accum == 0:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            if torch.isfinite(norm):
                for p in model.parameters():
                    if p.grad is not None:
                        p.grad.div_(total)
                optimizer.step()
            total = 0
            optimizer.zero_grad()
    return norm


def results(step: Callable[..., Any]) -> list[Result]:
    caller = Caller(step, None, "", {})
    plan = search.find_plan(caller, {}, ROOTS)
    return list(StepResults(StepRuns(caller, StepFeed(**plan.step), ROOTS)).all())


def wrong(found: list[Result], of: str) -> set[Case]:
    """The cases in which a result is another than its reference."""
    bad = [one.case for one in found if one.case["of"].startswith(of) and not one.is_reference]
    return {(case["limit"], case["targets"], case["micro_batches"]) for case in bad}


def test_a_right_step_equals_its_references_in_every_case() -> None:
    found = results(weighed)
    assert {(one.case["limit"], one.case["targets"], one.case["micro_batches"]) for one in found} == CASES
    assert {one.case["of"] for one in found} == {"steps", "step 1", "step 2", "the return value"}
    assert [one for one in found if not one.is_reference] == []


@pytest.mark.parametrize(
    ("step", "gradients", "returned"),
    [
        (
            divided,
            {case for case in CASES if case[1:] == ("unequal", 4)},
            {("none", "unequal", 4), ("reached", "unequal", 4)},
        ),
        (divided_after_the_clip, {case for case in CASES if case[0] == "reached"}, CASES),
    ],
)
def test_a_wrong_step_differs_where_it_is_wrong(
    step: Callable[..., Any], gradients: set[Case], returned: set[Case]
) -> None:
    found = results(step)
    assert wrong(found, "step ") == gradients
    assert wrong(found, "the return value") == returned
