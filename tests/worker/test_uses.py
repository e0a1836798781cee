"""What no name explains is told by its use, objects of the checkout's classes too; what use does not tell is named."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pytest
import torch

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.base.refusals import CannotFeedError, NotApplicable
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.plan import Plan
from auditkit.worker.feed.surroundings import BY_USE
from auditkit.worker.gradients.gradients import benign
from tests.worker.test_plan import BENIGN_NORM, method_plan, norm_of, plan_of


class Wrapper(ABC):
    def __init__(self, unknowable: Any) -> None:
        self.unknowable = unknowable

    def wrapped_norm(self) -> float:
        return norm_of([p.grad for p in self.model.parameters()])  # type: ignore[attr-defined]

    @abstractmethod
    def has_bad_values(self) -> bool: ...


class Plain(Wrapper):
    def has_bad_values(self) -> bool:
        return not all(p.grad.isfinite().all() for p in self.model.parameters())  # type: ignore[attr-defined]


class Chain(Plain):
    """Its parts are no optimizers of torch's, whatever they are called, and no chains themselves."""

    def __init__(self, unknowable: Any, others: Any, more: Any) -> None:
        self.chained_optimizers, self.infos, self.more = unknowable, others, more

    def wrapped_norm(self) -> float:
        return sum(each.wrapped_norm() ** 2 for each in self.chained_optimizers) ** 0.5

    def has_bad_values(self) -> bool:
        return any(each.has_bad_values() for each in self.chained_optimizers)

    def norm_by_name(self) -> float:
        found = 0.0
        for _, info in sorted(self.infos.items()):
            if info.is_active and info.optimizer:
                found += info.optimizer.wrapped_norm() ** 2
        return found**0.5


class Buckets:
    def __init__(self, unknowable: Any, others: Any, more: Any) -> None:
        self.buckets, self.table, self.more = unknowable, others, more

    def norm(self) -> float:
        return norm_of([grad for bucket in self.buckets for grad in bucket.main_grads])

    def returned(self) -> Any:
        return self.table.summed()

    def check_and_get(self) -> float:
        return norm_of(self.check_all().get_gradients())  # type: ignore[attr-defined]

    def weighed(self) -> float:
        return norm_of([grad for bucket in self.buckets for grad in bucket.main_grads]) * self.table[0]

    def perhaps(self) -> float:
        return norm_of(self.main_grads) if self.table else 0.0  # type: ignore[attr-defined]

    def follows(self) -> float:
        return float(self.table.get_grad_norm())


class Halves:
    def __init__(self, unknowable: Any, others: Any, more: Any) -> None:
        self.more = more, others, unknowable

    def of_flat(self) -> Any:
        return self.grad_data.norm()  # type: ignore[attr-defined]

    def of_lists(self) -> Any:
        return norm_of([each for group in self.averaged_gradients for each in group])  # type: ignore[attr-defined]

    def of_masters(self) -> Any:
        pairs = zip(self.fp16_groups[0], self.fp32_from_fp16_groups[0], strict=True)  # type: ignore[attr-defined]
        for half, master in pairs:
            master.grad = half.main_grad.float()
        return norm_of([each.grad for each in self.fp32_from_fp16_groups[0]])  # type: ignore[attr-defined]

    def of_samples(self) -> Any:
        norms = torch.stack([each._norm_sample for each in self.params])  # type: ignore[attr-defined]
        limits = torch.tensor(self.max_grad_norms)  # type: ignore[attr-defined]
        return (norms[:, 0] / limits).norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("method", ["of_flat", "of_lists", "of_masters", "of_samples"])
def test_what_optimizers_of_several_precisions_and_of_samples_keep_is_known_by_name(
    method: str, dtype: torch.dtype
) -> None:
    plan = method_plan(Halves, method)
    caller = Caller(getattr(Halves, method), Halves, method, {})
    grads = [grad.to(dtype) for grad in benign()]
    assert float(caller.prepare(plan.feed, (grads, [None]))()) == pytest.approx(BENIGN_NORM, rel=1e-3)


def test_what_follows_the_gradient_of_a_parameter_is_renewed_with_it() -> None:
    """An object that is asked again with other gradients finds them under the other name, too."""
    plan, held = method_plan(Halves, "of_samples"), []
    caller = Caller(Halves.of_samples, Halves, "of_samples", {})
    ask = caller.prepare(plan.feed, (benign(), [None]), given=held)
    first = float(ask())
    held[0].put([4 * grad for grad in benign()])
    assert float(ask()) == pytest.approx(4 * first)


def by_a_norm_of_ours(parameters: Any, total_norm: float, max_norm: float) -> float:
    factor = min(max_norm / total_norm, 1.0)
    for parameter in parameters:
        parameter.grad.mul_(factor)
    return factor


def test_a_clip_that_is_handed_the_norm_answers_by_what_it_does() -> None:
    """Its own number follows ours alone; and one call's norm is not that of the next."""
    plan = plan_of(by_a_norm_of_ours)
    assert (plan.fields, plan.roles, plan.clips, plan.writes) == ({}, {}, True, "it limits them")
    context = Context(plan, Caller(by_a_norm_of_ours, None, "", {}), "cpu", SourceRoots("/"), {})
    with pytest.raises(NotApplicable, match="a later call would get total_norm"):
        context.answers_in_turn([benign, benign])


def test_a_buffer_of_gradients_holds_zeros_where_there_is_none() -> None:
    """A parameter without a gradient raises nothing there: buffers are made for all of them."""
    plan = method_plan(Halves, "of_masters")
    caller = Caller(Halves.of_masters, Halves, "of_masters", {})
    assert caller.prepare(plan.feed, ([*benign(), None], [None]))() == pytest.approx(BENIGN_NORM)


def own(plan: Plan) -> dict[str, Any]:
    return {path: value for path, value in plan.filled.items() if path != "self"}


def test_what_is_iterated_holds_one_thing_and_what_is_called_gives_one() -> None:
    assert own(method_plan(Buckets, "norm")) == {
        "self.buckets": BY_USE,
        "self.buckets[0]": BY_USE,
        "self.buckets[0].main_grads": "the gradients",
    }
    plan = method_plan(Buckets, "check_and_get")
    assert own(plan) == {
        "self.check_all": BY_USE,  # by its name a flag
        "self.check_all()": BY_USE,
        "self.check_all().get_gradients": BY_USE,
        "self.check_all().get_gradients()": "the gradients",
    }
    assert plan.roles["norm"].path == ""


@pytest.mark.parametrize(
    ("method", "unknown"),
    [("weighed", "self.table[0]"), ("perhaps", "self.table"), ("returned", "self.table.summed()")],
)
def test_a_value_that_use_does_not_tell_is_named(method: str, unknown: str) -> None:
    """A number, a truth: neither is guessed, and what is passed on as gradients is none either."""
    with pytest.raises(CannotFeedError) as refusal:
        method_plan(Buckets, method)
    assert any(said.startswith(unknown) for said in refusal.value.attempts)


def test_an_answer_that_follows_a_norm_of_ours_alone_makes_no_collector() -> None:
    with pytest.raises(CannotFeedError):
        method_plan(Buckets, "follows")


def test_an_object_is_made_of_the_checkouts_class_that_has_the_methods_read() -> None:
    plan = method_plan(Chain, "wrapped_norm")
    assert own(plan)["self.chained_optimizers[0]"] == "Wrapper made without __init__"
    assert plan.roles["norm"].path == ""
    plan = method_plan(Chain, "norm_by_name")
    assert own(plan)["self.infos[0].optimizer"] == "Wrapper made without __init__"
    assert own(plan)["self.infos[0].is_active"] is True
    again = Plan.from_json(plan.to_json())
    assert again.feed.by_use == plan.feed.by_use


def test_a_class_that_leaves_a_method_to_others_stands_for_none() -> None:
    assert own(method_plan(Chain, "has_bad_values"))["self.chained_optimizers[0]"] == "Plain made without __init__"


def of_a_block(self: Any) -> float:
    return self.wrapped_norm()


def test_self_of_a_block_is_an_object_of_the_class_around_it() -> None:
    of_a_block.enclosing = Plain  # type: ignore[attr-defined]
    plan = plan_of(of_a_block)
    assert (plan.filled["self"], plan.feed.takes) == ("Plain made without __init__", "object")
    of_a_block.enclosing = None  # type: ignore[attr-defined]
    with pytest.raises(CannotFeedError):
        plan_of(of_a_block)
