"""Targets are fed and read by trying: every way of taking gradients and of answering is found out."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping
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


def of_module(model: nn.Module) -> float:
    return norm_of([p.grad for p in model.parameters()])


def of_parameters(params: Any) -> float:
    return norm_of([p.grad for p in params])


def of_iterator(params: Iterator) -> float:
    first = next(params)
    return norm_of([first.grad, *(p.grad for p in params)])


def of_named(named: Any) -> float:
    return norm_of([p.grad for _, p in named])


def of_gradients(grads: Any) -> float:
    return norm_of(grads)


def misleading(module: Any) -> float:
    """Named as if it took a module; takes gradients."""
    return norm_of([gradient * 1.0 for gradient in module])


@pytest.mark.parametrize(
    ("function", "takes", "container"),
    [
        (of_module, "module", "list"),
        (of_parameters, "parameters", "list"),
        (of_iterator, "parameters", "iterator"),
        (of_named, "named_parameters", "list"),
        (of_gradients, "gradients", "list"),
        (misleading, "gradients", "list"),
    ],
)
def test_the_way_to_feed_a_function_is_found_by_trying(function: Callable, takes: str, container: str) -> None:
    plan = plan_of(function)
    assert (plan.feed.takes, plan.feed.container, plan.contract) == (takes, container, "grad_norm")
    assert plan.roles == {"norm": Role("", 1)}


def test_a_declared_way_is_the_only_one_tried() -> None:
    with pytest.raises(CannotFeedError, match=r"^called with gradients it raises AttributeError: 'list' object has"):
        plan_of(of_module, takes="gradients")


def test_an_argument_that_gradients_cannot_fill_is_named_and_may_be_given() -> None:
    def needs_three(gradients: Any, tokenizer: Any, schedule: Any) -> float:
        return norm_of(gradients) * schedule

    with pytest.raises(CannotFeedError, match=r"^tokenizer: no value is known: give --argument tokenizer=VALUE$"):
        plan_of(needs_three)
    plan = plan_of(needs_three, arguments={"tokenizer": "x", "schedule": 2.0})
    assert (plan.feed.takes, plan.feed.slots) == ("gradients", ["gradients"])


class Scaled:
    def __init__(self, gain: float) -> None:
        self.gain = gain

    def norm(self, grads: Any) -> float:
        return self.gain * norm_of(grads)


def test_a_method_is_called_on_a_new_instance_with_the_constructors_arguments() -> None:
    assert method_plan(Scaled, "norm", {"gain": 2.0}).roles == {"norm": Role("", 1)}
    with pytest.raises(CannotFeedError, match=r"^self\.gain: no value is known: give --argument self\.gain=VALUE$"):
        method_plan(Scaled, "norm")


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


def test_a_monitor_is_set_up_with_its_modules_first() -> None:
    plan = method_plan(Watcher, "check")
    assert (plan.contract, plan.feed.setup, plan.feed.setup_slots) == ("monitor", "register", ["host", "seed"])
    assert plan.roles["norm"] == Role("host_norm", 1)


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


@pytest.mark.parametrize(
    "value_of",
    [
        lambda grads: torch.cat([grad.reshape(-1) for grad in grads]).mean().abs(),
        lambda grads: grads[0].norm(),
        lambda grads: grads[-1].norm(),
        lambda grads: min(grad.norm() for grad in grads),
        lambda grads: torch.stack([grad.norm() for grad in grads]).norm().clamp(max=20.0),
        lambda grads: torch.stack([grad.norm() for grad in grads]).norm().log(),
        lambda grads: sum(grad.norm() * place for place, grad in enumerate(grads, start=1)),
    ],
    ids=["signed mean", "first layer", "last layer", "smallest layer", "clamped", "logarithm", "weighted by place"],
)
def test_what_is_not_the_norm_of_all_gradients_is_not_judged_as_one(value_of: Callable) -> None:
    """The control is a norm beside it, under a name that says less."""
    answer = plan_of(lambda grads: {"total_norm": value_of(grads).item()})
    assert "norm" not in answer.roles
    both = plan_of(lambda grads: {"total_norm": value_of(grads).item(), "x": max(g.abs().max().item() for g in grads)})
    assert both.roles["norm"] == Role("x")


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
