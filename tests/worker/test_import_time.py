"""A module that looked for CUDA on import has the device, while there is a simulated one."""

from __future__ import annotations

import sys

import pytest
import torch

from auditkit.model.enums import Outcome
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.simulated.device import simulated_cuda
from auditkit.worker.simulated.tensor import State
from tests.probing_helpers import OFF_DEVICE, SYNCS, TARGETS, by_probe, load_target, run_probes

DEVICES = TARGETS / "devices"


def test_the_device_of_a_module_is_that_of_a_machine_with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DEVICES)
    monkeypatch.setattr(State, "roots", SourceRoots(str(DEVICES)))
    module = load_target(DEVICES / "asked_at_import.py")
    with simulated_cuda():
        assert (torch.device("cuda"), torch.device("cuda")) == (module.DEVICE, sys.modules["device_constants"].DEVICE)
        assert (module.use_cuda, module.place, module.Tensor.__module__) == (True, "cuda:0", "torch.cuda")
    assert (torch.device("cpu"), False, "cpu", "torch") == (
        module.DEVICE, module.use_cuda, module.place, module.Tensor.__module__,
    )  # fmt: skip
    assert module.built == [False]  # a statement that does more than bind a name does not run again
    for name in ("device_constants", "devices_asked_at_import"):
        sys.modules.pop(name)


@pytest.mark.process
def test_a_probe_finds_no_copies_to_the_host() -> None:
    results = by_probe(run_probes(DEVICES, "asked_at_import:norm_on_constant", [SYNCS, OFF_DEVICE]))
    assert {name: result.outcome for name, result in results.items()} == {
        SYNCS: Outcome.NOT_REPRODUCED,
        OFF_DEVICE: Outcome.NOT_REPRODUCED,
    }
