"""What a target reads beside the gradients is filled by name and recorded by its path, and makes no collector of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from auditkit.worker.base.refusals import CannotFeedError
from auditkit.worker.feed.plan import Plan
from tests.worker.test_plan import method_plan, norm_of, plan_of


def clipped(parameters: Any, max_norm: float) -> torch.Tensor:
    return nn.utils.clip_grad_norm_(parameters, max_norm)


def by_optimizer(optimizer: Any, max_norm: float) -> Any:
    return clipped([p for group in optimizer.param_groups for p in group["params"]], max_norm)


def by_chunks(model_chunks: Any) -> Any:
    return norm_of([p.grad for chunk in model_chunks for p in chunk.parameters()])


def by_configuration(cfg: Any, model: nn.Module) -> Any:
    return clipped(model.parameters(), cfg.optim["clip_norm"]) if not cfg.get("fp16") else None


def over_ranks(mp_pg: Any, named_parameters: Any) -> Any:
    assert dist.get_rank() == 0
    total = torch.stack([p.grad.norm() for _, p in named_parameters if not p.is_tied]).norm().square()
    dist.all_reduce(total, group=mp_pg)
    return total.sqrt()


def of_main_grads(params: Any) -> Any:
    return norm_of([p.main_grad for p in params])


def logged(model: nn.Module, writer: Any, step: int) -> None:
    writer.add_scalar("grad_norm", norm_of([p.grad for p in model.parameters()]), step)


def of_a_cut_block(self: Any, optimizer: Any) -> Any:
    self.scaler.unscale_(optimizer)
    return clipped(self.model.parameters(), self.args.max_grad_norm)


def with_its_limit(model: nn.Module, grad_norm: float | None = None) -> Any:
    return clipped(model.parameters(), grad_norm) if grad_norm else None


def timed(model: nn.Module, timers: Any, inv_scale: Any) -> Any:
    """Takes a number by its name, and reads it as a tensor."""
    timers("norm", log_level=1).start(barrier=False)
    return norm_of([p.grad * inv_scale.detach() for p in model.parameters()])


def of_both(gradients: Any, params: Any) -> Any:
    """Takes the parameters of the same gradients, not those of a second group."""
    return norm_of([gradient for gradient, p in zip(gradients, params, strict=True) if p.requires_grad])


@pytest.mark.parametrize(
    ("function", "takes", "filled"),
    [
        (by_optimizer, "optimizer", {"max_norm": 1.0}),
        (by_chunks, "modules", {}),
        (
            by_configuration,
            "module",
            {
                "cfg": "an object answering by name",
                "cfg.fp16": False,
                "cfg.optim": "an object answering by name",
                "cfg.optim.clip_norm": 1.0,
            },
        ),
        (over_ranks, "named_parameters", {"mp_pg": "a process group of world size 1", "parameter.is_tied": False}),
        (of_main_grads, "parameters", {"parameter.main_grad": "the gradient"}),
        (
            of_a_cut_block,
            "object",
            {
                "optimizer": "SGD over the parameters",
                "self.scaler": "a GradScaler that scales by 1",
                "self.model": "the module",
                "self.args": "an object answering by name",
                "self.args.max_grad_norm": 1.0,
            },
        ),
        (with_its_limit, "module", {"grad_norm": 1.0}),
        (timed, "module", {"timers": "an object whose methods do nothing", "inv_scale": "a tensor of 2.0"}),
        (of_both, "gradients", {"params": "the parameters"}),
    ],
)
def test_what_is_read_beside_the_gradients_is_filled_and_told(function: Callable, takes: str, filled: dict) -> None:
    plan = plan_of(function)
    assert (plan.feed.takes, plan.roles["norm"].path, plan.filled) == (takes, "", filled)
    assert not dist.is_initialized()


def test_what_no_name_explains_is_named_and_not_swallowed_by_the_target() -> None:
    def hides(cfg: Any, model: nn.Module) -> Any:
        try:
            limit = cfg.frobnicate
        except Exception:
            limit = 1.0
        return clipped(model.parameters(), limit)

    def looks(cfg: Any, model: nn.Module) -> Any:
        return clipped(model.parameters(), getattr(cfg, "frobnicate", 1.0))

    def projects(p: Any, gradients: Any) -> Any:
        return norm_of([each.view(-1) / len(p.shape) for each in gradients])

    with pytest.raises(CannotFeedError, match=r"p\.shape"):  # a parameter, not the power of a norm
        plan_of(projects)
    with pytest.raises(CannotFeedError, match=r"^cfg.frobnicate: no value is known: give --argument cfg.frobnicate="):
        plan_of(hides)
    assert plan_of(hides, arguments={"cfg.frobnicate": 1.0}).clips
    assert plan_of(looks).clips


def test_numbers_that_a_logger_gets_are_the_answer_of_a_target_that_returns_none() -> None:
    plan = plan_of(logged)
    assert (plan.fields, plan.roles["norm"].path) == ({"grad_norm": "float"}, "grad_norm")


def test_a_check_that_raises_for_what_is_not_finite_answers_by_that() -> None:
    def check(model: nn.Module) -> None:
        for name, p in model.named_parameters():
            assert torch.isfinite(p.grad).all(), name

    plan = plan_of(check)
    assert (plan.fields, plan.health, plan.feed.refusal) == ({"is_finite": "bool"}, ["is_finite"], "AssertionError")


class Trainer:
    def __init__(self, model: Any, loader: Any, tokenizer: Any, clip: float = 0.3, power: int = 2) -> None:
        self.model, self.history, self.power = model, [], power
        self.max_norm = clip
        self.calls = 0
        self.infos = list(self.history)

    def clip(self) -> Any:
        self.calls += 1
        self.history.append(clipped(self.model.parameters(), self.max_norm))
        return self.history[-1]

    def powers(self) -> float:
        return float(sum(p.grad.double().norm() ** self.power for p in self.model.parameters()))

    def count(self) -> int:
        return self.calls + 1

    def check(self) -> None:
        for each in self.infos:
            each.found_inf = not all(bool(p.grad.isfinite().all()) for p in each.layer.parameters())


class Stats(dict):  # type: ignore[type-arg]
    def __init__(self, run: Any) -> None:
        super().__init__(run.open("stats.json").read())

    def norm(self, parameters: Any) -> Any:
        return self.setdefault("norm", norm_of([p.grad for p in parameters]))


def made(owner: type, method: str) -> Plan:
    plan = method_plan(owner, method)
    assert plan.feed.setup == "__new__"
    return plan


def test_an_object_is_made_without_its_constructor_where_that_needs_too_much() -> None:
    """What the constructor stores as a literal is better than a guess; a limit is one that ordinary gradients meet."""
    plan = made(Trainer, "clip")
    assert plan.filled == {
        "self": "an object made without __init__",
        "self.calls": 0,
        "self.model": "the module",
        "self.max_norm": 1.0,
        "self.history": "[]",
    }
    assert (plan.clips, plan.others) == (True, {"self.max_norm": 0.5})
    assert made(Trainer, "powers").filled["self.power"] == 2
    assert made(Trainer, "check").fields == {"stored.found_inf": "bool"}
    assert made(Stats, "norm").feed.takes == "parameters"
    with pytest.raises(CannotFeedError, match="its result is the same for other gradients"):
        method_plan(Trainer, "count")


_TENSOR_PARALLEL_GROUP: Any = None


def test_a_group_that_a_module_holds_or_the_environment_names_is_made_and_taken_away() -> None:
    def over_a_global(params: Any) -> float:
        assert _TENSOR_PARALLEL_GROUP is not None, "tensor parallel group is not initialized"
        return norm_of([p.grad for p in params]) * dist.get_world_size(_TENSOR_PARALLEL_GROUP)

    def of_a_rank(params: Any) -> float:
        return norm_of([p.grad for p in params]) + int(os.environ["RANK"])

    alone = "a process group of world size 1"
    assert plan_of(over_a_global).filled == {f"{__name__}._TENSOR_PARALLEL_GROUP": alone}
    assert plan_of(of_a_rank).filled == {"torch.distributed": alone}
    assert (_TENSOR_PARALLEL_GROUP, dist.is_initialized(), "RANK" in os.environ) == (None, False, False)
