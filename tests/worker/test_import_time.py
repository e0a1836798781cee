"""What a module asked of CUDA at its import is asked again on the pretended device, and only that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch

from auditkit.model.enums import Outcome
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure.syncs import count_syncs
from auditkit.worker.simulated.device import simulated_cuda
from auditkit.worker.simulated.import_time import Modules
from auditkit.worker.simulated.tensor import State, to_simulated
from tests.probing_helpers import OFF_DEVICE, SYNCS, TARGETS, by_probe, load_target, run_probes

DEVICES = TARGETS / "devices"
CPU = torch.device("cpu")


@pytest.fixture(name="module")
def module_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(DEVICES)
    monkeypatch.setattr(State, "modules", Modules(lambda path: path.startswith(str(DEVICES))))
    yield load_target(DEVICES / "asked_at_import.py")
    for name in ("device_constants", "devices_asked_at_import"):
        sys.modules.pop(name)


def answers(module: ModuleType) -> tuple[object, ...]:
    constants = sys.modules["device_constants"]
    return constants.DEVICE, module.DEVICE, module.use_cuda, module.place, module.Tensor.__module__


def test_names_are_those_of_a_machine_with_cuda(module: ModuleType) -> None:
    """They are as they were afterwards, and a statement that does more than bind a name is not run again."""
    before = (CPU, CPU, False, "cpu", "torch")
    assert answers(module) == before
    with simulated_cuda():
        cuda = torch.device("cuda")
        assert answers(module) == (cuda, cuda, True, "cuda:0", "torch.cuda")
    assert answers(module) == before
    assert module.built == [False]


def test_what_goes_to_the_device_it_is_on_does_not_wait(module: ModuleType) -> None:
    function: Callable = module.norm_on_constant
    gradients = [to_simulated(torch.ones(3)) for _ in range(4)]
    assert count_syncs(lambda: function(gradients), "simulated", SourceRoots(str(DEVICES))).total == 1


def test_torch_itself_is_left_alone() -> None:
    names = {str(held["__name__"]).partition(".")[0] for held in Modules(lambda path: True).namespaces}
    assert "auditkit" in names
    assert "torch" not in names


@pytest.mark.process
def test_a_probe_finds_no_copies_to_the_host() -> None:
    results = by_probe(run_probes(DEVICES, "asked_at_import:norm_on_constant", [SYNCS, OFF_DEVICE]))
    assert {name: result.outcome for name, result in results.items()} == {
        SYNCS: Outcome.NOT_REPRODUCED,
        OFF_DEVICE: Outcome.NOT_REPRODUCED,
    }
