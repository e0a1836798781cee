"""Which steps `auditkit run` inspects beside the first and every N-th, and what it reads when the process ends."""

from __future__ import annotations

import gc
import io
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from auditkit.testing import GuardFailed, GuardUnavailable, watch
from auditkit.worker.watch.syncs import MESSAGE, Syncs

STEPS = 40


def train(at: Callable[[int, nn.Module], float]) -> None:
    """Train; `at` acts before each step and returns the factor of its loss."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for step in range(STEPS):
        optimizer.zero_grad()
        (model(torch.ones(4, 4)).square().mean() * at(step, model)).backward()
        optimizer.step()


EVENTS: dict[str, Callable[[nn.Module], float]] = {
    "evaluation": lambda model: float(model.eval().train().training),
    "save": lambda model: torch.save(model.state_dict(), io.BytesIO()) or 1.0,
    "epoch": lambda model: 1.0 * len(list(torch.utils.data.DataLoader([1]))),
    "jump": lambda model: 50.0,
    "not a number": lambda model: float("nan"),
}


def inspected(at: Callable[[int, nn.Module], float]) -> tuple[list[int], Any]:
    torch.manual_seed(0)
    with watch(every=1000, fail_on=None) as seen:
        train(at)
    assert seen.watched is not None
    return [turn["step"] for turn in seen.watched.recording.main.turns], seen


@pytest.mark.parametrize("event", EVENTS)
def test_the_step_after_an_event_is_inspected(event: str) -> None:
    """Without an event, only the first five are; a second event within `--every` steps costs nothing."""
    steps, seen = inspected(lambda step, model: EVENTS[event](model) if step in (20, 30) else 1.0)
    assert steps == [0, 1, 2, 3, 4, 20]
    if event == "not a number":
        assert [(each.probe, each.notes) for each in seen.findings] == [
            ("nonfinite_step_is_applied", ("since step 5",))
        ]


def test_the_parameters_are_read_when_the_process_ends() -> None:
    """Weights that become NaN behind the last inspection are found, with the range of steps."""

    def spoils(step: int, model: nn.Module) -> float:
        if step == 30:
            with torch.no_grad():
                model.weight[0, 0] = float("nan")
            model.forward = lambda x: x * model.bias.sum() * 0  # type: ignore[method-assign]
        return 1.0

    steps, seen = inspected(spoils)
    assert steps == [0, 1, 2, 3, 4]
    (found,) = [each for each in seen.findings if each.probe == "nonfinite_step_is_applied"]
    assert "became NaN or inf between steps 5 and 39" in found.message


def test_a_thousand_tensors_cost_less_than_a_megabyte() -> None:
    """Python's allocations and the watcher's own tensors after six inspected steps; the program's are made before."""
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(500)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    model(torch.ones(1, 8)).sum().backward()
    assert all(tensor.grad is not None for tensor in model.parameters())
    with watch(every=1, fail_on=None) as seen:
        gc.collect()
        before = {id(each) for each in gc.get_objects() if isinstance(each, torch.Tensor)}
        tracemalloc.start()
        started = tracemalloc.get_traced_memory()[0]
        for _ in range(6):
            optimizer.step()
        gc.collect()
        python_bytes = tracemalloc.get_traced_memory()[0] - started
        tracemalloc.stop()
        added = [each for each in gc.get_objects() if isinstance(each, torch.Tensor) and id(each) not in before]
    assert seen.watched is not None
    assert len(seen.watched.recording.main.parameters) == 1000
    assert len(seen.watched.recording.main.turns) == 6
    total = python_bytes + sum(each.untyped_storage().nbytes() for each in added)
    print(f"\n{total:,} bytes for 1,000 tensors, {len(added)} tensors")
    assert 100_000 < total < 1_000_000


def test_warnings_of_cuda_are_counted_by_line(recwarn: pytest.WarningsRecorder) -> None:
    """Those of the training thread count; those of other threads and of auditkit itself do not, and none is shown.

    This machine needs no GPU: the test issues the warnings that torch would issue.
    """
    ours = []
    syncs = Syncs(lambda: bool(ours))
    syncs.listen()

    def waits(message: str = f"{MESSAGE} (Triggered internally at CUDAFunctions.cpp:1.)") -> None:
        warnings.warn(message, UserWarning, stacklevel=1)

    for _ in range(3):
        waits()
    line = waits.__code__.co_firstlineno + 1
    other = threading.Thread(target=waits)
    other.start()
    other.join()
    waits("the program's own")
    ours.append(True)
    waits()
    syncs.close()
    assert {(Path(file).name, at): count for (file, at, _), count in syncs.counts.items()} == {
        ("test_inspections.py", line): 3
    }
    assert [str(each.message) for each in recwarn] == ["the program's own"]


def test_a_block_fails_on_a_finding() -> None:
    """A finding of P2 or worse fails the test that holds the block; a block without a step cannot be checked."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def steps(zeroes: bool) -> None:
        for _ in range(4):
            model(torch.ones(4, 4)).square().mean().backward()
            optimizer.step()
            if zeroes:
                optimizer.zero_grad()

    with watch(optimizer):
        steps(zeroes=True)
    with pytest.raises(GuardFailed, match="P0 gradients_lost_or_stale"), watch(optimizer):
        steps(zeroes=False)
    with pytest.raises(GuardUnavailable, match="no optimizer step"), watch(optimizer):
        pass
