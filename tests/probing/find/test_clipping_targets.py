"""Clipping targets are told by what they do to the gradients, and are fed a limit where nobody gave one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from auditkit.worker.answers.roles import Role
from tests.worker.test_plan import plan_of


def clipped_in_place(parameters: Any, max_grad_norm: float) -> None:
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([grad.norm() for grad in grads]))
    if norm > max_grad_norm:
        for grad in grads:
            grad.mul_(max_grad_norm / norm)


def clipped_by_replacement(model: nn.Module, clip_norm: float) -> None:
    grads = [p.grad for p in model.parameters()]
    norm = torch.linalg.vector_norm(torch.stack([grad.norm() for grad in grads]))
    for parameter in model.parameters():
        parameter.grad = parameter.grad * min(1.0, clip_norm / float(norm))


def normalized(grads: Any) -> bool:
    """Says only that it is done."""
    norm = torch.linalg.vector_norm(torch.stack([grad.norm() for grad in grads]))
    for grad in grads:
        grad.div_(norm)
    return True


@pytest.mark.parametrize(
    ("function", "takes", "fields"),
    [
        (nn.utils.clip_grad_norm_, "parameters", [""]),
        (clipped_in_place, "parameters", []),
        (clipped_by_replacement, "module", []),
        (normalized, "gradients", []),
        (nn.utils.clip_grads_with_norm_, "parameters", []),
    ],
)
def test_a_clipping_target_is_told_by_its_effect(function: Callable, takes: str, fields: list[str]) -> None:
    """Also one that returns nothing: its answer is what it does."""
    plan = plan_of(function)
    assert (plan.clips, plan.feed.takes, list(plan.fields), plan.contract) == (True, takes, fields, "grad_norm")


def test_a_limit_that_nobody_gave_is_one_and_the_plan_says_so() -> None:
    """The norm of benign gradients is 5.96: it is read, and clipped to the limit."""
    plan = plan_of(nn.utils.clip_grad_norm_)
    assert (plan.roles, plan.feed.slots) == ({"norm": Role("", 1)}, ["parameters"])
    assert plan.filled == {"max_norm": 1.0}
    assert plan_of(nn.utils.clip_grad_norm_, arguments={"max_norm": 2.0}).filled == {}
