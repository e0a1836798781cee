"""Syncs and launches: exact on hand-counted toys, where the naive instruments are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure import memory, selfcheck, syncs
from auditkit.worker.measure.syncs import Count, count_launches, count_syncs
from auditkit.worker.simulated.tensor import to_simulated

ROOTS = SourceRoots(str(Path(__file__).parent))
DEVICES = ("simulated", "cpu")


def place(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return to_simulated(tensor) if device == "simulated" else tensor


def three(device: str) -> torch.Tensor:
    return place(torch.tensor([1.0, 2.0, 3.0]), device)


def branch(t: torch.Tensor) -> None:
    if t.sum() > 1:
        pass


def clip(t: torch.Tensor) -> None:
    parameter = torch.nn.Parameter(torch.zeros_like(t))
    parameter.grad = t.clone()
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)


def keep(t: torch.Tensor) -> None:
    torch.zeros(3).copy_(t)


def read_one_copy_often(t: torch.Tensor) -> None:
    """Trap 1: after one `.cpu()`, everything on the copy is free."""
    copy = t.cpu()
    assert copy[0].item() == copy.tolist()[0] == 1.0
    assert float(copy.sum()) == 6.0
    assert f"{copy[1]:.1f}" == "2.0"
    assert copy[copy > 1].tolist() == [2.0, 3.0]


# What a CUDA build of torch waits for, of three elements: what waits.md cannot say in one expression.
HAND_COUNTED: list[tuple[str, Callable[[torch.Tensor], Any], int]] = [
    ("one copy, read often", read_one_copy_often, 1),
    (".to(same device) is free", lambda t: (t.to(t.device), t.to(t), t.to(device=t.device)), 0),
    ("torch.as_tensor([[t0], [t1]])", lambda t: torch.as_tensor([[t[0]], [t[1]]]), 2),
    ('.to("cpu", float64)', lambda t: t.to("cpu", torch.float64), 1),
    ("float()", lambda t: float(t.sum()), 1),
    ("int()", lambda t: int(t.sum()), 1),
    ("if tensor > 1", branch, 1),
    ("printing", repr, 1),
    ("f-string", lambda t: f"{t.sum()}", 1),
    ("adding one value under a mask", lambda t: t.index_put_((t > 1,), torch.tensor(1.0), accumulate=True), 1),
    ("numpy of a copy", lambda t: np.asarray(t.cpu()), 1),
    ("in a Python list", lambda t: [0, 10, 20][t.long()[0]], 1),
    ("views", lambda t: (t[1:], t[0], t.view(-1), t.reshape(3, 1), t.chunk(2), t.unbind()), 0),
    ("clip_grad_norm_ (trap 2)", clip, 0),
    ("into a buffer, which lies on the host only because there is no device", keep, 0),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("function", "expected"), [case[1:] for case in HAND_COUNTED], ids=[c[0] for c in HAND_COUNTED]
)
def test_syncs_are_counted_as_a_cuda_device_would_wait(function: Callable, expected: int, device: str) -> None:
    tensor = three(device)
    assert count_syncs(lambda: function(tensor), device, ROOTS).total == expected


def pow_sum_add(grads: list[torch.Tensor]) -> torch.Tensor:
    return sum(grad.pow(2).sum() for grad in grads).sqrt()


def foreach_stack(grads: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(torch._foreach_norm(grads, 2)).pow(2).sum().sqrt()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1, 4, 64])
def test_launches_are_exact(device: str, n: int) -> None:
    """A loop of squares and sums launches 3n+1 kernels, its foreach successor 5; views launch none."""

    def count(function: Callable) -> int:
        grads = [place(torch.ones(8), device) for _ in range(n)]
        return count_launches(lambda: function(grads), device, ROOTS).total

    assert count(pow_sum_add) == 3 * n + 1
    assert count(foreach_stack) == 5
    assert count(lambda grads: [grad.view(2, 4).t()[0].detach().reshape(-1) for grad in grads]) == 0
    assert count(lambda grads: torch.empty_like(grads[0])) == 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("instrument", ["syncs", "launches", "memory"])
def test_a_sound_instrument_passes_its_self_check(instrument: str, device: str) -> None:
    selfcheck.check(instrument, device, ROOTS)


@pytest.mark.parametrize(
    ("module", "replaced", "wrong", "message"),
    [
        (syncs, "count_syncs", Count(3, []), "the sync counter reads 3 for a function with 4 syncs, expected 4"),
        (syncs, "count_launches", Count(0, []), "the launch counter reads 0 for a function with 3 launches"),
        (memory, "peak_bytes", 10 << 19, "the peak memory reads 5242880 for 10 MiB, expected 10485760"),
    ],
)
def test_a_wrong_instrument_is_not_believed(
    module: ModuleType, replaced: str, wrong: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, replaced, lambda *_: wrong)
    with pytest.raises(selfcheck.SelfCheckError, match=message):
        selfcheck.check(module.__name__.rpartition(".")[2], "simulated", ROOTS)
