"""Memory: what collectors add at their peak on the device, and whether the CPU's ratio to the gradients holds there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from auditkit.worker.measure.memory import peak_bytes
from benchmarks.gpu_machine import Machine
from benchmarks.gpu_rows import Document, Row
from benchmarks.rival_collectors import COLLECTORS, PURE_READ

SIZES = {"1M": 10**6, "10M": 10**7, "100M": 10**8, "1B": 10**9}
TENSORS = 10
"""Equal ones, as the probe for memory asks."""
LAW_SIZE = "10M"
MEASURED = [name for name in COLLECTORS if name != PURE_READ]


def rows(machine: Machine) -> list[Row]:
    """The CPU's ratios, then every size from the smallest on: what does not fit fails last."""
    return [
        *(Row(f"CPU {LAW_SIZE} {name}", lambda name=name: spike(machine, "cpu", LAW_SIZE, name)) for name in MEASURED),
        *(
            Row(f"device {size} {name}", lambda size=size, name=name: spike(machine, machine.device, size, name))
            for size in SIZES
            for name in MEASURED
        ),
    ]


def spike(machine: Machine, device: str, size: str, name: str) -> Document:
    """Bytes that one call adds at its worst moment, by the allocator, after a call on a few gradients."""
    params = SIZES[size] // (1000 if machine.is_preflight else 1)
    collector: Callable[..., Any] = COLLECTORS[name]
    collector(_gradients(device, 1000))
    machine.cuda.empty_cache()
    gradients = _gradients(device, params // TENSORS)
    peak = peak_bytes(lambda: collector(gradients), device)
    return {"params": params, "tensors": TENSORS, "peak_bytes": peak, "ratio": peak / (4 * params)}


def _gradients(device: str, elements: int) -> list[torch.Tensor]:
    return [torch.full((elements,), 1e-3, device=device) for _ in range(TENSORS)]
