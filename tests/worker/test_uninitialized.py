"""Objects made without `__init__`: what constructors compute, backends, per-sample gradients, stored results."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.distributed as dist

from auditkit.worker.base.refusals import CannotFeedError, CannotReadError
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.plan import Plan
from auditkit.worker.feed.search import find_plan
from tests.worker.test_plan import norm_of, plan_of

_backend: Any = None


def reduced(value: torch.Tensor) -> torch.Tensor:
    _backend.all_reduce(value)
    return value


class Overflow:
    def __init__(self, unknowable: Any, other: Any) -> None:
        self._seen = defaultdict(list, unknowable or {})
        self._overflowing = torch.zeros(1) + 0.0
        self._pairs = zip(other, unknowable, strict=True)

    def norm(self, grads: Any) -> float:
        return norm_of(grads) + float(self._overflowing)

    def seen(self, grads: Any) -> float:
        return norm_of(grads) + len(self._seen)


@dataclass
class Settings:
    unguessable: float = 3.0
    required: Any = field(default_factory=list)


class Partial:
    def __init__(self, config: Settings, unknowable: Any) -> None:
        self.config, self.unknowable = config, unknowable

    def scaled(self) -> float:
        return self.norm_of_all() * self.config.unguessable

    def other(self) -> float:
        return norm_of(self.unknowable)


class Whole(Partial):
    def norm_of_all(self) -> float:
        return norm_of([parameter.grad for parameter in self.model.parameters()])  # type: ignore[attr-defined]


def made(method: str, owner: type = Overflow) -> Plan:
    return find_plan(Caller(getattr(owner, method), owner, method, {}), {"setup": "__new__"})


def test_a_method_of_a_deriving_class_and_a_declared_default_are_used() -> None:
    filled = made("scaled", Partial).filled
    assert filled["self.norm_of_all"] == "Whole.norm_of_all of a class that derives from it"
    assert filled["self.config.unguessable"] == 3.0
    with pytest.raises(CannotFeedError, match=r"self\.unknowable"):
        made("other", Partial)


def test_what_a_constructor_computes_from_nothing_unknown_is_computed() -> None:
    assert made("norm").filled["self._overflowing"] == "torch.zeros(1) + 0.0, as __init__ stores it"
    with pytest.raises(CannotFeedError, match=r"self\._seen"):
        made("seen")


def test_a_wrapper_without_its_backend_gets_torchs_own_until_nobody_asks() -> None:
    def over_ranks(grads: Any) -> Any:
        return reduced(torch.tensor(norm_of(grads)))

    plan = plan_of(over_ranks)
    assert plan.filled == {f"{__name__}._backend": "torch.distributed with a process group of world size 1"}
    assert (plan.contract, _backend, dist.is_initialized()) == ("grad_norm", None, False)


def check_into(grads: Any, found_inf: Any) -> None:
    for grad in grads:
        if not bool(torch.isfinite(grad).all()):
            found_inf.fill_(1.0)


def sum_samples(parameters: Any, max_grad_norm: float) -> None:
    for parameter in parameters:
        norms = parameter.grad_sample.flatten(1).norm(dim=1)
        parameter.kept = torch.einsum("i,i...", (max_grad_norm / norms).clamp(max=1.0), parameter.grad_sample)


def keep_nothing(parameters: Any) -> None:
    for parameter in parameters:
        parameter.kept = torch.zeros_like(parameter)


def test_what_is_stored_of_gradients_is_an_answer() -> None:
    """The control stores what says nothing of them."""
    checked, summed = plan_of(check_into), plan_of(sum_samples)
    assert (checked.feed.keeps, list(checked.fields)) == (True, ["stored.found_inf"])
    assert (summed.feed.keeps, list(summed.fields), summed.contract) == (True, ["stored.kept"], "grad_stats")
    assert summed.filled["parameter.grad_sample"] == "the gradient as that of one sample"
    refused = [instrument for instrument in ("values", "memory", "graphs", "ranks") if summed.why_not_asked(instrument)]
    assert refused == ["memory", "graphs", "ranks"], "reading it back has a cost; no rank has samples of its own"
    with pytest.raises(CannotFeedError, match="it returns None"):
        plan_of(keep_nothing)


def test_a_check_and_a_clip_factor_are_no_norm() -> None:
    """The controls are the norm itself, at half of its size, and one with a floor."""
    norm = plan_of(lambda grads: 0.5 * norm_of(grads))
    assert (norm.contract, norm.roles["norm"].path) == ("grad_norm", "")
    assert "norm" in plan_of(lambda grads: max(1.0, norm_of(grads))).roles
    for function in (
        lambda grads: any(not bool(torch.isfinite(grad).all()) for grad in grads),
        lambda grads: torch.tensor([not bool(torch.isfinite(grad).all()) for grad in grads]).any(),
        lambda grads: sum(int((grad == 0).sum()) for grad in grads),
        lambda grads, max_norm: max(1.0, norm_of(grads) / max_norm),
    ):
        plan = plan_of(function)
        assert (plan.contract, "norm" in plan.roles) == ("grad_stats", False)


def unmarked(function: Any) -> Any:
    def wrapped(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    return wrapped


class LossScaler:
    def __init__(self, scale: float, window: int) -> None:
        self.scale, self.window = scale, window

    def unscaled(self, norm: float) -> float:
        return norm / self.scale / self.window


class Sharded:
    def __init__(self, cfg: Any, unknowable: Any, lone: bool) -> None:
        window = cfg.scale_window
        self.scaler = LossScaler(cfg.init_scale, window)
        self.offload_optimizer = False
        if lone:
            self.offload_optimizer = True
        self.local_overflow = False
        self.norm_for_param_grads: Any = {}
        self.history = unknowable.records

    @unmarked
    def norm(self, gradients: Any) -> float:
        return self.scaler.unscaled(norm_of(gradients))

    @unmarked
    def on_device(self, gradients: Any) -> float:
        return norm_of(gradients[:1] if self.offload_optimizer else gradients)

    def note(self, gradients: Any) -> None:
        if not all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
            self.local_overflow = True

    def keep(self, gradients: Any) -> None:
        for place, gradient in enumerate(gradients):
            self.norm_for_param_grads[place] = {"norm": gradient.norm()}

    def seen(self, gradients: Any) -> float:
        return norm_of(gradients) * len(self.history)

    @property
    def optimizer(self) -> Any:
        if not hasattr(self, "_optimizer"):
            raise NotImplementedError
        return self._optimizer

    def of_optimizer(self) -> float:
        return norm_of([each.grad for each in self.optimizer.param_groups[0]["params"]])


def test_what_a_constructor_makes_of_its_arguments_is_made_and_flags_are_as_set_first() -> None:
    """The control reads what the constructor got of an argument that no name explains."""
    scaled, on_device = made("norm", Sharded), made("on_device", Sharded)
    assert scaled.filled["self.scaler"] == "LossScaler(cfg.init_scale, window), as __init__ stores it"
    assert (scaled.filled["cfg.init_scale"], scaled.filled["cfg.scale_window"]) == (2.0, 1)
    assert (on_device.filled["self.offload_optimizer"], on_device.contract) == (False, "grad_norm")
    assert made("of_optimizer", Sharded).filled["self._optimizer"] == "SGD over the parameters"
    with pytest.raises(CannotFeedError, match=r"self\.history"):
        made("seen", Sharded)


def test_a_flag_that_is_set_for_bad_gradients_alone_and_a_mapping_of_mappings_are_answers() -> None:
    flag, kept = made("note", Sharded), made("keep", Sharded)
    assert (flag.fields, flag.contract) == ({"stored.local_overflow": "bool"}, "grad_stats")
    assert list(kept.fields) == ["stored.norm_for_param_grads"]


def of_groups(norm_groups: Any) -> float:
    return float(torch.stack(norm_groups).norm())


def of_group_lists(param_groups: Any) -> float:
    return norm_of([parameter.grad for group in param_groups for parameter in group])


def by_wrapper(model: Any, max_norm: float) -> float:
    return float(model.clip_grad_norm_(max_norm))


def test_groups_and_wrappers_are_fed() -> None:
    """One group holds everything."""
    assert (plan_of(of_groups).feed.container, plan_of(of_groups).contract) == ("norms", "grad_norm")
    assert plan_of(of_group_lists).feed.container == "lists"
    assert plan_of(by_wrapper).filled["module.clip_grad_norm_"] == "torch.nn.utils.clip_grad_norm_"


class Reporter:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def report(self, gradients: Any) -> None:
        self.log_metrics({"norm": norm_of(gradients)})

    def log_metrics(self, metrics: Any) -> None:
        raise NotImplementedError

    def scaled(self, gradients: Any) -> float:
        return norm_of(gradients) * self.factor()

    def factor(self) -> float:
        raise NotImplementedError


class HalfReporter(Reporter):
    def factor(self) -> float:
        return 0.5


def test_what_a_class_leaves_to_those_that_derive_from_it_is_theirs_or_a_logger() -> None:
    assert list(made("report", Reporter).fields) == ["norm"]
    told = made("scaled", Reporter).filled["self.factor"]
    assert told == "HalfReporter.factor of a class that derives from it"


def of_backward(module: Any, grad_input: Any, grad_output: Any, clamp_value: float) -> Any:
    return tuple(gradient.clamp(-clamp_value, clamp_value) for gradient in grad_input)


def limited(grads: Any, max_norm: float) -> Any:
    return [grad * min(1.0, max_norm / norm_of(grads)) for grad in grads]


def test_new_gradients_that_are_handed_back_take_the_place_of_the_old() -> None:
    """The control hands back what has other shapes."""
    assert [plan_of(each).clips for each in (of_backward, limited)] == [True, True]
    with pytest.raises(CannotReadError, match="holds no single number"):
        plan_of(lambda grads: [grad.reshape(-1) * 2 for grad in grads])
