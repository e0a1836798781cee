"""Targets are fed and read by trying: every way of taking gradients and of answering is found out."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from auditkit.worker.answers.roles import Role
from auditkit.worker.base.refusals import CannotFeedError, CannotReadError
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.plan import Plan
from auditkit.worker.feed.search import find_plan


def plan_of(function: Callable, *, arguments: Mapping = {}, **request: Any) -> Plan:
    return find_plan(Caller(function, None, "", dict(arguments)), request)


def method_plan(owner: type, method: str, arguments: Mapping = {}, **request: Any) -> Plan:
    return find_plan(Caller(getattr(owner, method), owner, method, dict(arguments)), request)


def norm_of(gradients: Any) -> float:
    return float(torch.linalg.vector_norm(torch.stack([g.double().norm() for g in gradients])))


# --- feeding -----------------------------------------------------------------------------------


class Watcher:
    def __init__(self, threshold: float = 1.0) -> None:
        self.threshold = threshold

    def register(self, host: nn.Module, seed: nn.Module) -> None:
        self.host, self.seed = host, seed

    def check(self) -> dict:
        grads = [[p.grad for p in m.parameters() if p.grad is not None] for m in (self.host, self.seed)]
        host, seed = (norm_of(found) if found else 0.0 for found in grads)
        return {"host_norm": host, "seed_norm": seed, "isolated": host < self.threshold}

    def begin(self, one: nn.Module) -> None:
        self.host = self.seed = one


def test_a_named_set_up_method_is_used() -> None:
    assert method_plan(Watcher, "check", setup="begin").feed.setup == "begin"
    with pytest.raises(CannotFeedError, match="Watcher has no method 'attach' to set it up"):
        method_plan(Watcher, "check", setup="attach")


# --- reading -----------------------------------------------------------------------------------


@dataclass
class Record:
    total: float
    layers: int


Pair = collections.namedtuple("Pair", "total layers")


class WithProperties:
    def __init__(self, value: float) -> None:
        self._value = value

    @property
    def total(self) -> float:
        return self._value


@pytest.mark.parametrize(
    ("wrap", "path", "kind"),
    [
        (lambda n: n, "", "number"),
        (lambda n: torch.tensor(n), "", "tensor"),
        (lambda n: {"total": n, "layers": 3}, "total", "mapping"),
        (lambda n: Record(n, 3), "total", "dataclass"),
        (lambda n: Pair(n, 3), "total", "tuple"),
        (lambda n: (3, {"total": n}), "1.total", "tuple"),
        (lambda n: WithProperties(n), "total", "object"),
    ],
)
def test_the_norm_is_found_in_any_answer(wrap: Callable, path: str, kind: str) -> None:
    plan = plan_of(lambda grads: wrap(norm_of(grads)))
    assert (plan.roles["norm"], plan.answer_kind) == (Role(path, 1), kind)
    assert plan.fields[path]


def test_an_answer_that_ignores_the_gradients_is_none() -> None:
    """A health check that changes for gradients which are not finite is one that looks."""
    with pytest.raises(CannotFeedError, match="its result is the same for other gradients"):
        plan_of(lambda grads: {"grad_norm": 1.0, "layers": len(grads)})
    assert plan_of(lambda grads: all(bool(torch.isfinite(grad).all()) for grad in grads)).answer_kind == "number"


def counts(grads: Any) -> dict:
    flat = torch.cat([g.reshape(-1) for g in grads])
    return {
        "a": (flat == 0).sum().item() / flat.numel(),
        "b": torch.isnan(flat).sum().item(),
        "c": torch.isinf(flat).sum(),
        "size": flat.numel(),
    }


def test_declared_roles_win_over_found_ones() -> None:
    def answer(grads: Any) -> dict:
        return {**counts(grads), "norm": norm_of(grads), "other": 2 * norm_of(grads)}

    plan = plan_of(answer, returns={"norm": "other", "nan_count": "size", "zero_fraction": "b"})
    assert plan.roles["norm"] == Role("other", 1)
    assert plan.roles["nan"] == Role("size", kind="count")
    assert plan.roles["zero"] == Role("b", kind="fraction")


def test_a_declared_field_that_is_not_there_is_an_error_with_near_names() -> None:
    with pytest.raises(CannotReadError, match="no field 'grad_norm' for norm; it has: gradient_norm"):
        plan_of(lambda grads: {"gradient_norm": norm_of(grads), "x": 1}, returns={"norm": "grad_norm"})
