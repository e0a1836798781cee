"""Whether changing gradients is what a function is for is told by what it does: the table of docs/design/effects.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.worker.base.refusals import CannotFeedError
from tests.probes.in_process import ask
from tests.probing_helpers import MUTATES
from tests.worker.test_plan import plan_of

PAGE = Path(__file__).parents[2] / "docs" / "design" / "effects.md"
LIMITS, DROPS = "it limits them", "it drops the small ones"
ARGUMENT, NO_STATISTIC = "it scales them by an argument", "its result is no statistic of them"
FINDING = "a finding"


def norm_of(grads: Any) -> float:
    return float(torch.linalg.vector_norm(torch.stack([grad.norm() for grad in grads])))


def bound(params: Any, max_norm: float) -> float:
    grads = [p.grad for p in params]
    norm = norm_of(grads)
    for grad in grads:
        grad.mul_(min(1.0, max_norm / norm))
    return norm


def keep_within(params: Any, limit: float) -> float:
    for p in params:
        p.grad.clamp_(-limit, limit)
    return norm_of([p.grad for p in params])


def to_unit_length(params: Any) -> float:
    """Each layer for itself."""
    norms = [p.grad.norm() for p in params]
    for p, norm in zip(params, norms, strict=True):
        p.grad.div_(norm)
    return float(torch.stack(norms).max())


def undo_loss_scale(params: Any, loss_scale: float = 1024.0) -> float:
    for p in params:
        p.grad.div_(loss_scale)
    return norm_of([p.grad for p in params])


def weaken(params: Any, factor: float) -> None:
    for p in params:
        p.grad.mul_(factor)


def sparsify(params: Any) -> float:
    for p in params:
        p.grad[p.grad.abs() < p.grad.abs().median()] = 0
    return norm_of([p.grad for p in params])


def sanitize(params: Any) -> int:
    """How many were replaced."""
    bad = sum(int((~p.grad.isfinite()).sum()) for p in params)
    for p in params:
        p.grad.nan_to_num_()
    return bad


def tidy(params: Any) -> float:
    """Replaces NaN in place; returns the norm of what is left."""
    for p in params:
        p.grad.nan_to_num_()
    return norm_of([p.grad for p in params])


def repaired(params: Any) -> float:
    for p in params:
        p.grad.nan_to_num_()
    return norm_of([p.grad for p in params])


def centralize_(params: Any) -> float:
    for p in params:
        p.grad.sub_(p.grad.mean())
    return norm_of([p.grad for p in params])


def mean_magnitude(params: Any) -> float:
    return float(sum(p.grad.abs_().mean() for p in params))


def root_of_squares(params: Any) -> float:
    return float(sum(p.grad.mul_(p.grad).sum() for p in params)) ** 0.5


def robust_norm(params: Any) -> float:
    return norm_of([p.grad.nan_to_num_() for p in params])


def norm_and_forget(params: Any) -> float:
    norm = norm_of([p.grad for p in params])
    for p in params:
        p.grad = None
    return norm


def mean_within(params: Any, bound: float = 0.5) -> float:
    """Mean magnitude of the gradients, outliers held at the bound."""
    return float(sum(p.grad.clamp_(-bound, bound).abs().mean() for p in params))


def clipped_mean(params: Any, bound: float = 0.5) -> float:
    """Clip the elements and return their mean magnitude."""
    return mean_within(params, bound)


def unscaled_norm(params: Any, scale: float = 1.0) -> float:
    """Norm that the gradients have without the loss scale."""
    return undo_loss_scale(params, scale)


def copy_reduced(params: Any) -> bool:
    for p in params:
        p.grad = torch.ones_like(p) if p.grad is None else p.grad
    return not all(bool(p.grad.isfinite().all()) for p in params)


def reduced_norm(params: Any) -> float:
    copy_reduced(params)
    return norm_of([p.grad for p in params])


def check_reduced(params: Any) -> bool:
    return copy_reduced(params)


def plain_norm(params: Any) -> float:
    return norm_of([p.grad for p in params])


TABLE = {
    bound: LIMITS,
    keep_within: LIMITS,
    to_unit_length: LIMITS,
    undo_loss_scale: ARGUMENT,
    weaken: ARGUMENT,
    sparsify: DROPS,
    sanitize: NO_STATISTIC,
    tidy: 'its docstring has "in place"',
    repaired: "it changes only what is not finite, and is not called a statistic",
    centralize_: "its name ends in an underscore",
    mean_magnitude: FINDING,
    root_of_squares: FINDING,
    robust_norm: FINDING,
    norm_and_forget: FINDING,
    mean_within: FINDING,
    clipped_mean: LIMITS,
    unscaled_norm: FINDING,
    copy_reduced: "it gives one to parameters without any",
    reduced_norm: FINDING,
    check_reduced: FINDING,
    plain_norm: "changes nothing",
}


@pytest.mark.parametrize(("function", "verdict"), TABLE.items(), ids=[function.__name__ for function in TABLE])
def test_the_purpose_of_a_change_is_told_by_what_it_does(function: Callable, verdict: str) -> None:
    answer = ask(MUTATES, function)
    if verdict == FINDING:
        # Graver where gradients of ordinary size change, too; few parameters have none.
        severity = {robust_norm: "P1", reduced_norm: "P2", check_reduced: "P2"}.get(function, "P0")
        assert (answer.outcome, answer.severity) == ("reproduced", severity)
    elif verdict == "changes nothing":
        assert answer.outcome == "not_reproduced"
    else:
        assert answer.message == "changing gradients is what it is for: " + verdict


def test_what_returns_nothing_is_an_answer_only_where_it_limits_or_scales() -> None:
    def reset(params: Any) -> None:
        for p in params:
            p.grad.zero_()

    def hook(params: Any) -> None:
        for p in params:
            p.register_hook(lambda grad: grad.clamp(-0.5, 0.5))

    assert plan_of(weaken).fields == {}
    assert (plan_of(hook).clips, plan_of(hook).feed.hooks) == (True, True)
    with pytest.raises(CannotFeedError, match="returns None"):
        plan_of(reset)


class Moving:
    """Clips to the median of the norms so far; `leak` only measures, and squares the gradients."""

    def __init__(self) -> None:
        self.norms: list[float] = []

    def limit(self, params: Any) -> float:
        grads = [p.grad for p in params]
        norm = norm_of(grads)
        self.norms.append(norm)
        for grad in grads:
            grad.mul_(min(1.0, sorted(self.norms)[len(self.norms) // 2] / (norm + 1e-6)))
        return norm

    def leak(self, params: Any) -> float:
        self.norms.append(root_of_squares(params))
        return self.norms[-1] - sum(self.norms) / len(self.norms) / 2


def test_a_limit_that_moves_is_told_once_an_object_was_called_often() -> None:
    """Its first norm is its own limit: it changes nothing but the last bits."""
    limit = ask(MUTATES, Moving.limit, owner=Moving)
    assert limit.message == "changing gradients is what it is for: " + LIMITS
    leak = ask(MUTATES, Moving.leak, owner=Moving)
    assert (leak.outcome, leak.severity) == ("reproduced", "P0")


def test_a_default_that_switches_the_change_off_is_replaced_and_told() -> None:
    plan = plan_of(unscaled_norm)
    assert (plan.settings, plan.notes) == ({"scale": 2.0}, ["it was called with scale=2: its default changes nothing"])
    assert plan_of(unscaled_norm, arguments={"scale": 1.0}).settings == {}
    assert plan_of(undo_loss_scale).settings == {}


def test_the_page_has_this_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(function.__name__, verdict) for function, verdict in TABLE.items()]
