"""Bytes that leave the device: exact on toys counted by hand, and what the host then works on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure import selfcheck
from auditkit.worker.measure.transfers import Traffic, count_transfers
from auditkit.worker.simulated.tensor import to_simulated

ROOTS = SourceRoots(str(Path(__file__).parent))
ELEMENTS = 1000


def moved_by(function: Callable[[torch.Tensor], Any], *, device_index: int = 0) -> Traffic:
    """What `function` moves for one float32 gradient of a thousand elements, 4,000 bytes."""
    grad = to_simulated(torch.ones(ELEMENTS), device_index)
    return count_transfers(lambda: function(grad), "simulated", ROOTS)


def pinned_copy(t: torch.Tensor) -> None:
    buffer = torch.empty(ELEMENTS, pin_memory=True)
    buffer.copy_(t, non_blocking=True)


def discard(_: Any) -> None:
    return None


HAND_COUNTED: list[tuple[str, Callable[[torch.Tensor], Any], int]] = [
    (".cpu()", lambda t: discard(t.cpu()), 4000),
    ('.to("cpu", non_blocking=True)', lambda t: discard(t.to("cpu", non_blocking=True)), 4000),
    ('.to("cpu", float64): crosses as float32', lambda t: discard(t.to("cpu", torch.float64)), 4000),
    (".tolist()", lambda t: discard(t.tolist()), 4000),
    ("copy_ into pinned memory", pinned_copy, 4000),
    (
        "_foreach_copy_ of two",
        lambda t: torch._foreach_copy_([torch.empty(ELEMENTS), torch.empty(ELEMENTS)], [t, t]),
        8000,
    ),
    ("half of it", lambda t: discard(t[:500].cpu()), 2000),
    ("in bfloat16", lambda t: discard(t.bfloat16().cpu()), 2000),
    ("one element after the other", lambda t: discard([x.item() for x in t]), 4000),
    ("torch.tensor(list of elements)", lambda t: discard(torch.tensor(list(t))), 4000),
    ("one scalar", lambda t: discard(t.sum().item()), 4),
    ("a branch", lambda t: discard(bool(t.any())), 1),
    ("reading the copy is free", lambda t: discard([x.item() for x in t.cpu()]), 4000),
    ("nothing", lambda t: discard((t.to(t.device), t.clone(), t.double(), t.norm())), 0),
]


@pytest.mark.parametrize(
    ("function", "expected_bytes"), [case[1:] for case in HAND_COUNTED], ids=[case[0] for case in HAND_COUNTED]
)
def test_bytes_to_the_host_are_exact(function: Callable, expected_bytes: int) -> None:
    moved = moved_by(function)
    assert (moved.to_host_bytes, moved.between_devices_bytes) == (expected_bytes, 0)


def test_bytes_up_and_between_devices_are_counted_apart() -> None:
    up = moved_by(lambda t: torch.ones(10).cuda() + torch.tensor([1.0] * 10, device=t.device) + torch.tensor(1.0))
    assert (up.to_device_bytes, up.to_host_bytes) == (80, 0)
    across = moved_by(lambda t: t.to("cuda:0").sum(), device_index=1)
    assert (across.between_devices_bytes, across.off_device_bytes) == (4000, 4000)


def test_what_the_answer_consists_of_had_to_be_moved() -> None:
    """Returning a copy is no work; summing it on the host and returning the sum is."""
    assert moved_by(lambda t: t.cpu()).off_device_bytes == 0
    assert moved_by(lambda t: t.cpu().sum()).off_device_bytes == 3996


@pytest.mark.parametrize(
    ("function", "operator", "elements"),
    [
        (lambda t: t.cpu().sum(), "sum", 1000),
        (lambda t: torch.linalg.svdvals(t.view(10, 100).cpu()), "_linalg_svd", 1000),
        (lambda t: t.cpu().numpy().sum(), "numpy", 1000),
        (lambda t: t.norm().cpu() * 2, "mul", 1),
        (lambda t: t.cpu(), "", 0),
    ],
)
def test_the_hosts_work_on_device_data_is_followed(function: Callable, operator: str, elements: int) -> None:
    """Through views and further operators, not into tensors that never were on a device."""
    moved = moved_by(function)
    assert (moved.host_operator, moved.host_elements) == (operator, elements)


def test_a_sound_byte_counter_passes_its_self_check() -> None:
    selfcheck.check("transfers", "simulated", ROOTS)
    selfcheck.check("devices", "simulated", ROOTS)


@pytest.mark.parametrize(
    ("instrument", "device", "message"),
    [
        ("transfers", "cpu", "transfers: not available on the device 'cpu'"),
        ("devices", "cpu", "two devices: not available on the device 'cpu'"),
        ("graph_capture", "simulated", "a CUDA graph: not available on the device 'simulated'"),
    ],
)
def test_an_instrument_says_where_it_cannot_be_used(instrument: str, device: str, message: str) -> None:
    with pytest.raises(selfcheck.SelfCheckError, match=message):
        selfcheck.check(instrument, device, ROOTS)
