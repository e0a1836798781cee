"""Each trap of counting: a naive instrument that falls into it, beside ours, which does not.

Traps 3 and 4 (one mode alone; memory that a kernel allocates) are tested with their instruments:
`test_one_mode_alone_counts_wrongly` in `test_traffic_instruments.py`, and
`test_a_dispatch_mode_does_not_see_what_a_kernel_allocates` in `test_memory_instrument.py`. Trap 8 (a
descriptor that stays open) is tested by
`test_an_orphan_that_holds_our_pipes_does_not_look_like_a_time_out` in `test_sandbox.py`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.overrides import TorchFunctionMode

from auditkit.model.enums import Outcome
from auditkit.model.runs.target import Target
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure import graphs
from auditkit.worker.measure.syncs import count_syncs
from auditkit.worker.measure.transfers import count_transfers
from auditkit.worker.simulated.tensor import to_host, to_simulated
from tests.probing_helpers import HEALTH, SYNCS, TARGETS, run_probes

pytestmark = pytest.mark.process

ROOTS = SourceRoots(str(Path(__file__).parent))


def place(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return to_simulated(tensor) if device == "simulated" else tensor


# --- traps 1, 2, 7: reads and transfers -----------------------------------------------------------


class _NamedCalls(TorchFunctionMode):
    """The naive counter of synchronisations: every call of a method that may read the device."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") in self.names
        return func(*args, **(kwargs or {}))


def histogram_of_a_copy(grads: list[torch.Tensor]) -> int:
    """Three synchronisations: two numbers, and one copy, whose 1,024 values are then looked at on the host."""
    norms = torch.stack(torch._foreach_norm(grads))
    largest, smallest = norms.max().item(), norms.min().item()
    return sum(smallest < norm.item() <= largest for norm in norms.cpu())


@pytest.mark.parametrize("device", ["simulated", "cpu"])
def test_trap_1_reading_the_host_copy_is_free(device: str) -> None:
    """The naive counter reads 1027 for code that makes the device wait three times."""
    grads = [place(torch.full((4,), float(i)), device) for i in range(1024)]
    naive = _NamedCalls("item", "cpu")
    with naive:
        histogram_of_a_copy([to_host(grad) for grad in grads])
    assert naive.count == 1027
    assert count_syncs(lambda: histogram_of_a_copy(grads), device, ROOTS).total == 3


@pytest.mark.parametrize("device", ["simulated", "cpu"])
def test_trap_2_to_the_same_device_is_free(device: str) -> None:
    """The naive counter makes torch's own get_total_norm grow with the tensors; it performs no synchronisation."""
    for tensors in (4, 64):
        grads = [place(torch.ones(8), device) for _ in range(tensors)]
        naive = _NamedCalls("to", "cpu", "item")
        with naive:
            torch.nn.utils.get_total_norm([to_host(grad) for grad in grads])
        assert naive.count == tensors
        assert count_syncs(lambda given=grads: torch.nn.utils.get_total_norm(given), device, ROOTS).total == 0


def collect_on_the_host(grads: list[torch.Tensor]) -> torch.Tensor:
    """Called asynchronous, and waits: the norms are copied to the host."""
    return torch.stack(torch._foreach_norm(grads)).cpu()


def test_trap_7_fake_tensors_do_not_see_a_copy_to_the_host() -> None:
    """The naive gate, "it runs on fake tensors, so it reads nothing", passes code that synchronises once."""

    def passes_the_gate(function: Callable[[list[torch.Tensor]], Any]) -> bool:
        with FakeTensorMode():
            fake = [torch.empty(8, device="cuda:0") for _ in range(4)]
            try:
                function(fake)
            except DataDependentOutputException:
                return False
        return True

    assert passes_the_gate(collect_on_the_host)
    assert not passes_the_gate(lambda grads: torch.stack(torch._foreach_norm(grads)).sum().item())
    grads = [place(torch.ones(8), "simulated") for _ in range(4)]
    assert count_syncs(lambda: collect_on_the_host(grads), "simulated", ROOTS).total == 1
    assert count_transfers(lambda: collect_on_the_host(grads), "simulated", ROOTS).to_host_bytes == 16


# --- trap 5: breaks under torch.compile -----------------------------------------------------------


def grads_of(parameters: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def reads_at_the_end(parameters: list[torch.nn.Parameter]) -> float:
    return torch.stack(torch._foreach_norm(grads_of(parameters))).norm().item()


def reads_in_a_loop(parameters: list[torch.nn.Parameter]) -> list[float]:
    found = []
    for grad in grads_of(parameters):
        found.append(grad.norm().item())
    return found


@pytest.mark.parametrize(
    ("function", "naive_count", "breaks", "before_end"), [(reads_at_the_end, 0, 1, 0), (reads_in_a_loop, -1, 4, 4)]
)
def test_trap_5_dynamos_own_count_is_not_the_number_of_breaks(
    function: Callable, naive_count: int, breaks: int, before_end: int
) -> None:
    """Its count is 0 for a break on the last operator, and -1 where the frame is skipped."""
    parameters = [torch.nn.Parameter(torch.ones(8)) for _ in range(4)]
    for parameter in parameters:
        parameter.grad = torch.ones(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._dynamo.reset()
        naive = torch._dynamo.explain(function)(parameters)
    assert naive.graph_break_count == naive_count
    counted = graphs.trace(lambda: function(parameters), ROOTS)
    assert (counted.break_count, counted.breaks_before_end) == (breaks, before_end)


# --- trap 6: a failed import ------------------------------------------------------------------------


def test_trap_6_a_failed_import_retried_in_one_process_can_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The naive retry imports code that no fresh process can import; ours runs the function alone, and says why."""
    checkout = TARGETS / "misbehaving"
    monkeypatch.syspath_prepend(str(checkout))
    with pytest.raises(RuntimeError, match="not ready"):
        importlib.import_module("starts_second_time")
    assert importlib.import_module("starts_second_time").norm([torch.ones(4)]) == 2.0
    run = run_probes(checkout, "starts_second_time:norm", [HEALTH])
    assert (run.loaded_by.rung, run.results[0].outcome) == ("cut_out", Outcome.NOT_REPRODUCED)
    assert "cut out of its file" in run.results[0].notes[0]
    assert "the logging backend is not ready" in run.notes[0]


# --- trap 9: address space ------------------------------------------------------------------------


def limits_seen(tmp_path: Path, **arguments: Any) -> set[str]:
    """What a target saw of its process's address space, in every call that the worker's children made."""
    log = tmp_path / "limits"
    target = Target("limits:total_norm", arguments={"log": str(log), **arguments})
    run = run_probes(TARGETS / "limits", target, [SYNCS, HEALTH])
    assert {result.outcome for result in run.results} <= {Outcome.REPRODUCED, Outcome.NOT_REPRODUCED}
    lines = log.read_text().splitlines()
    assert len(lines) > 10
    return set(lines)


def test_trap_9_a_worker_does_not_limit_address_space(tmp_path: Path) -> None:
    """CUDA reserves more address space than the machine has memory; under a limit it cannot start.

    The control: the naive guard against targets that take too much memory is seen, and it refuses a
    reservation that takes none.
    """
    assert limits_seen(tmp_path) == {"unlimited reserved"}
    naive_limit_bytes = 256 << 30
    (tmp_path / "limits").unlink()
    assert limits_seen(tmp_path, naive_limit_bytes=naive_limit_bytes) == {f"{naive_limit_bytes} refused"}
