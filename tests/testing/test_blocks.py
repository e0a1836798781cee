"""`no_sync` and `no_allocation`: what a block does is counted, what is the host's own is not, and all is put back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader, TensorDataset

from auditkit.testing import GuardFailed, GuardUnavailable, blocks, no_allocation, no_sync

HERE = Path(__file__).parent
WIDTH = 8


def parts() -> tuple[Any, ...]:
    """A model, an optimizer that has made a step, and a batch."""
    torch.manual_seed(0)
    model = torch.nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters())
    train_step(model, optimizer, torch.ones(4, WIDTH))
    return model, optimizer, torch.randn(4, WIDTH)


def train_step(model, optimizer, batch):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def waits_in(body: Any) -> int:
    with no_sync(at_most=10**6, root=HERE) as waits:
        body()
    assert waits.count is not None
    return waits.count


def refused(block: Any, body: Any) -> list[str]:
    """The lines of what the block says when `body` has ended."""
    with pytest.raises(GuardFailed) as failed, block:
        body()
    return str(failed.value).splitlines()


def test_a_step_that_waits_is_named_with_its_line() -> None:
    model, optimizer, batch = parts()

    def log() -> None:
        for _ in range(3):
            loss = train_step(model, optimizer, batch)
        print(loss.item(), loss.tolist())
        loss.cpu()

    line = log.__code__.co_firstlineno + 3
    assert refused(no_sync(root=HERE), log) == [
        "3 synchronizations in the block; none allowed",
        f"  line      test_blocks.py:{line} in test_a_step_that_waits_is_named_with_its_line.<locals>.log: 2 of 3",
        "              print(loss.item(), loss.tolist())",
        f"            test_blocks.py:{line + 1} in test_a_step_that_waits_is_named_with_its_line.<locals>.log: 1 of 3",
        "              loss.cpu()",
        "  evidence  simulated: counted on the CPU with CPU tensors that stand for a device's; no number is a GPU's",
    ]


def test_what_is_the_hosts_own_is_not_counted() -> None:
    """An optimizer's step counters, a sampler's order, a batch that is moved, a copy that was made before."""
    model, optimizer, batch = parts()
    loader = DataLoader(TensorDataset(torch.randn(8, WIDTH)), batch_size=4, shuffle=True)

    def body() -> None:
        for (each,) in loader:
            train_step(model, optimizer, each.to("cpu"))
        train_step(model, optimizer, torch.stack([torch.tensor([float(n)] * WIDTH) for n in range(3)]).to("cpu"))
        order = torch.randperm(4)
        assert int(order.sum()) == 6
        for index in order:
            batch[index]

    assert waits_in(body) == 0


def test_all_is_put_back_and_the_blocks_own_exception_passes() -> None:
    functions = torch.cuda.synchronize, torch.nn.Module.cuda, torch.amp.GradScaler.__init__

    def fail() -> None:
        torch.ones(3).sum().item()
        raise KeyError("mine")

    for block in (no_sync(root=HERE), no_allocation(root=HERE)):
        with pytest.raises(KeyError, match="mine"), block:
            fail()
        assert torch.overrides._get_current_function_mode_stack() == []
        assert _get_current_dispatch_mode_stack() == []
    assert functions == (torch.cuda.synchronize, torch.nn.Module.cuda, torch.amp.GradScaler.__init__)
    said = refused(no_allocation(root=HERE), lambda: torch.ones(1000))  # the profiler is free again
    assert said[0] == "4,000 bytes at the peak of the block; none allowed"


@pytest.mark.parametrize(("block", "instrument"), [(no_sync, "sync counter"), (no_allocation, "peak memory")])
def test_a_block_is_not_passed_by_an_instrument_that_misreads(
    block: Any, instrument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks._check.cache_clear()
    monkeypatch.setattr("auditkit.worker.measure.syncs.count_syncs", lambda *_: SimpleNamespace(total=0))
    monkeypatch.setattr("auditkit.worker.measure.memory.peak_bytes", lambda *_: 0)
    with pytest.raises(GuardUnavailable, match=instrument), block():
        pass
