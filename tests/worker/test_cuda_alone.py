"""Targets that name CUDA and do not run without it: they are fed and asked on the pretended device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from auditkit.model.enums import DeviceChoice, Evidence, Outcome, Reason
from auditkit.worker.base.refusals import CannotFeedError
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.plan import Plan
from auditkit.worker.feed.search import find_plan_anywhere
from tests.probing_helpers import EMPTY, OVERFLOW, SHARDING, SYNCS, TARGETS, by_probe, load_target, run_probes

DEVICES = TARGETS / "devices"
CUDA_ALONE = load_target(DEVICES / "cuda_alone.py")


def plan_of(function: Callable, owner: type | None = None) -> Plan:
    return find_plan_anywhere(Caller(function, owner, function.__name__, {}), {}, has_cuda=False)


@pytest.mark.parametrize("name", ["builds_on_cuda", "moves_to_number", "old_constructor", "asserts_cuda"])
def test_a_function_that_names_cuda_is_fed_on_the_pretended_device(name: str) -> None:
    plan = plan_of(getattr(CUDA_ALONE, name))
    assert (plan.device, list(plan.roles), plan.contract) == ("simulated", ["norm"], "grad_norm")
    assert Plan.from_json(plan.to_json()) == plan


def test_a_class_that_names_cuda_where_it_is_built_is_fed_there() -> None:
    plan = plan_of(CUDA_ALONE.Collector.collect, CUDA_ALONE.Collector)
    assert (plan.device, plan.roles["norm"].path, plan.feed.takes) == ("simulated", "norm", "module")


def test_what_runs_on_the_host_is_fed_there() -> None:
    """The control: naming CUDA is not enough."""

    def norm(gradients: Any) -> float:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return float(torch.stack([gradient.to(device).norm() for gradient in gradients]).norm())

    assert plan_of(norm).device == "cpu"


def test_where_no_device_helps_the_host_says_why() -> None:
    """Its file does not speak of CUDA, its error does; nobody is tried on a device for any other error."""
    asked: list[bool] = []

    def refuses(gradients: Any) -> float:
        asked.append(torch.cuda.is_available())
        raise ValueError("no CUDA kernel" if gradients else "")

    with pytest.raises(CannotFeedError, match="ValueError: no CUDA kernel"):
        plan_of(refuses)
    assert asked[-1] is True


@pytest.mark.process
def test_its_probes_ask_on_the_pretended_device_and_say_what_they_cannot() -> None:
    run = run_probes(DEVICES, "cuda_alone:builds_on_cuda", [OVERFLOW, SYNCS, SHARDING])
    results = by_probe(run)
    assert run.notes == ["it does not run on the CPU; it was fed on the simulated device"]
    assert [(results[name].device, results[name].evidence) for name in (OVERFLOW, SYNCS)] == [
        ("simulated", Evidence.SIMULATED)
    ] * 2
    assert (results[SYNCS].outcome, results[SYNCS].law) == (Outcome.NOT_REPRODUCED, "1")
    assert (results[SHARDING].outcome, results[SHARDING].reason) == (Outcome.UNAVAILABLE, Reason.NO_DEVICE)


@pytest.mark.process
def test_asked_on_the_cpu_it_says_that_it_runs_with_cuda_alone() -> None:
    result = run_probes(DEVICES, "cuda_alone:builds_on_cuda", [SYNCS], device=DeviceChoice.CPU).results[0]
    assert result.outcome is Outcome.UNAVAILABLE
    assert result.message == "the target runs only with CUDA: use --device auto"


@pytest.mark.process
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA, so it raises nothing")
def test_a_case_that_asks_for_cuda_is_no_finding_where_there_is_none() -> None:
    """On a machine with CUDA the same call answers."""
    (result,) = run_probes(DEVICES, "cuda_alone:zero_on_cuda", [EMPTY]).results
    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, Reason.NO_DEVICE)
    assert result.message == "the target needs CUDA: Torch not compiled with CUDA enabled"
