"""Guards on a real device: what a block costs is measured there, and said to be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from auditkit.testing import GuardFailed, check, no_allocation, no_sync

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent


def layer_norms(parameters):
    return [p.grad.norm().item() for p in parameters if p.grad is not None]


def test_a_block_is_counted_by_the_runtime() -> None:
    values = torch.ones(1000, device="cuda")
    with no_sync(root=HERE):
        values.mul_(2).sum()
    with no_sync(at_most=2, root=HERE) as waits:
        values.sum().item()
        values.tolist()
    assert waits.count == 2
    with pytest.raises(GuardFailed, match=r"(?s)^1 synchron.*test_guards_gpu.py:\d+ in .*measured on NVIDIA"):
        wait(values)
    assert torch.cuda.get_sync_debug_mode() == 0


def wait(values: torch.Tensor) -> None:
    with no_sync(root=HERE):
        values.sum().item()


def test_a_blocks_memory_is_the_devices() -> None:
    values = torch.ones(1 << 20, device="cuda")
    with no_allocation(root=HERE):
        values.mul_(2)
    with pytest.raises(GuardFailed, match="4,194,304 bytes at the peak"), no_allocation(root=HERE):
        values.clone()


def test_a_collector_is_asked_on_the_device() -> None:
    with pytest.raises(GuardFailed, match=r"(?s)256 synchronizations at 256 tensors.*measured on NVIDIA"):
        check(layer_norms, root=HERE).syncs(at_most=1)
