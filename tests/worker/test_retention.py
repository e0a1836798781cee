"""What a target holds after its call: exact on toys that keep a known number of bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.plan import Feed
from auditkit.worker.feed.repeated import RepeatedCall
from auditkit.worker.measure.memory import held_bytes, kept_by_answer, peak_bytes, python_held_bytes, where_retained

pytestmark = pytest.mark.process

ROOTS = SourceRoots(str(Path(__file__).parent))
MIB = 1 << 20
GRADIENT_BYTES = MIB
CALLS = (1, 4, 16)
LIST = Feed("gradients", "list", ["grads"], None, [])


def make_grads() -> list[torch.Tensor]:
    return [torch.ones(MIB // 16) for _ in range(4)]


def with_graph() -> list[torch.Tensor]:
    return [grad.requires_grad_().exp() for grad in make_grads()]


class KeepsTenMib:
    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    def collect(self, grads: list[torch.Tensor]) -> float:
        self.kept.append(torch.zeros(10 * MIB, dtype=torch.uint8))
        return 1.0


class KeepsOneBuffer:
    def __init__(self) -> None:
        self.buffer: torch.Tensor | None = None

    def collect(self, grads: list[torch.Tensor]) -> float:
        if self.buffer is None:
            self.buffer = torch.zeros(10 * MIB, dtype=torch.uint8)
        return float(self.buffer[0])


class KeepsBytes:
    """Memory of Python, which no allocator of torch sees."""

    def __init__(self) -> None:
        self.kept: list[bytearray] = []

    def collect(self, grads: list[torch.Tensor]) -> float:
        self.kept.append(bytearray(MIB))
        return 1.0


class KeepsGradients:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def collect(self, grads: list[torch.Tensor]) -> float:
        self.kept.append(list(grads))
        return 1.0


class KeepsNothing:
    def collect(self, grads: list[torch.Tensor]) -> float:
        doubles = [grad.double() for grad in grads]
        cycle: list[Any] = [doubles]
        cycle.append(cycle)
        return float(doubles[0].sum())


def repeated(owner: type, feed: Feed = LIST) -> RepeatedCall:
    caller = Caller(owner.collect, owner, "collect", {})  # type: ignore[attr-defined]
    return RepeatedCall(caller, feed, make_grads(), [None])


def held(owner: type, reader: Callable = held_bytes, feed: Feed = LIST) -> dict[int, int]:
    target = repeated(owner, feed)

    def step() -> None:
        target.call(make_grads())
        target.forget()

    return reader(step, CALLS, "cpu")


def test_ten_mib_for_each_call_read_ten_mib_for_each_call() -> None:
    assert held(KeepsTenMib) == {calls: calls * 10 * MIB for calls in CALLS}


@pytest.mark.parametrize(("owner", "bytes_held"), [(KeepsOneBuffer, 10 * MIB), (KeepsNothing, 0)])
def test_what_does_not_grow_is_told_apart(owner: type, bytes_held: int) -> None:
    """A cycle that only the collector can free is not held."""
    assert held(owner) == dict.fromkeys(CALLS, bytes_held)


def test_python_memory_is_read_by_its_own_instrument() -> None:
    """To within the list and the objects' headers; the allocator's events do not show it."""
    read = held(KeepsBytes, python_held_bytes)
    assert (read[16] - read[4]) / 12 == pytest.approx(MIB, rel=0.01)
    assert set(held(KeepsBytes).values()) == {0}


class KeepsParameters:
    """Reads parameters, and remembers the gradients that they had."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def collect(self, parameters: Any) -> float:
        self.kept += [parameter.grad for parameter in parameters]
        return 1.0


class WatchesModule:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def watch(self, module: torch.nn.Module) -> None:
        self.module = module

    def collect(self) -> float:
        self.kept += [parameter.grad for parameter in self.module.parameters()]
        return float(next(self.module.parameters()).grad[0])


@pytest.mark.parametrize(
    ("owner", "feed"),
    [
        (KeepsParameters, Feed("parameters", "list", ["parameters"], None, [])),
        (KeepsParameters, Feed("parameters", "iterator", ["parameters"], None, [])),
        (WatchesModule, Feed("module", "list", [], "watch", ["module"])),
    ],
    ids=["parameters", "iterator", "registered module"],
)
def test_one_instance_sees_new_gradients_of_the_same_parameters(owner: type, feed: Feed) -> None:
    """The parameters themselves live on and are not counted."""
    assert held(owner, feed=feed) == {calls: calls * GRADIENT_BYTES for calls in CALLS}


class Answers:
    def __init__(self, give: Callable) -> None:
        self.give = give

    def collect(self, grads: list[torch.Tensor]) -> Any:
        return self.give(grads)


def kept_of(give: Callable, make: Callable = with_graph) -> Any:
    caller = Caller(Answers.collect, Answers, "collect", {"give": give})
    return kept_by_answer(RepeatedCall(caller, LIST, make(), [None]), make, "cpu")


def total(grads: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([grad.square().sum() for grad in grads]).sum()


def test_an_answer_that_keeps_the_graph_alive_is_seen() -> None:
    """Leaves and gradients (which both `exp` and the squares keep): twice the gradients, to within scalars."""
    kept = kept_of(lambda grads: {"total": total(grads), "layers": 4})
    assert kept.paths == ["total"]
    assert kept.held == pytest.approx(2 * GRADIENT_BYTES, abs=4096)


@pytest.mark.parametrize(
    ("give", "make"),
    [(lambda grads: total(grads).detach(), with_graph), (total, make_grads), (lambda grads: list(grads), with_graph)],
    ids=["detached", "no graph", "given back"],
)
def test_an_answer_without_a_graph_of_its_own_has_none(give: Callable, make: Callable) -> None:
    assert kept_of(give, make).paths == []


def test_the_line_that_made_what_is_kept() -> None:
    lines = {}
    for name, owner in (("kept", KeepsTenMib), ("nothing", KeepsNothing), ("gradients", KeepsGradients)):
        site = where_retained(repeated(owner), make_grads, False, "cpu", ROOTS)
        lines[name] = site.line if site is not None else None
    assert lines == {
        "kept": KeepsTenMib.collect.__code__.co_firstlineno + 1,
        "nothing": None,
        "gradients": None,
    }


def test_the_line_that_gave_the_answer_its_graph() -> None:
    caller = Caller(Answers.collect, Answers, "collect", {"give": total})
    site = where_retained(RepeatedCall(caller, LIST, with_graph(), [None]), with_graph, True, "cpu", ROOTS)
    assert site is not None
    assert site.line == total.__code__.co_firstlineno + 1


def test_the_release_of_an_older_block_is_not_counted() -> None:
    """The profiler reports the release of a block that an earlier recording saw, with the size of that time."""
    older: list[torch.Tensor] = []
    assert peak_bytes(lambda: older.append(torch.empty(2 * MIB, dtype=torch.uint8)), "cpu") == 2 * MIB
    assert held_bytes(older.clear, (1, 2), "cpu") == {1: 0, 2: 0}
    assert peak_bytes(lambda: older.append(torch.empty(2 * MIB, dtype=torch.uint8)), "cpu") == 2 * MIB

    def replace() -> None:
        older.clear()
        older.append(torch.empty(MIB, dtype=torch.uint8))

    assert peak_bytes(replace, "cpu") == MIB
