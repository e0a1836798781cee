"""Check an instrument on a toy with a known reading, in the same process, just before the instrument is used."""

import importlib
from typing import Any, Sequence

import torch

from ..base.frames import SourceRoots
from ..simulated.device import on_device
from ..simulated.tensor import to_simulated


class SelfCheckError(Exception):
    """The instrument misread its toy, so its readings cannot be trusted."""

    reason = "self_check"


_MODULES = {
    **{name: "." + name for name in ("graphs", "syncs", "memory", "mutation", "transfers", "ranks", "graph_capture")},
    "launches": ".syncs",
    "devices": ".selfcheck",
    "steps": "..steps.seam",
}
"""The module whose `self_check(device, roots)` runs the toy of an instrument."""


def check(instrument: str, device: str, roots: SourceRoots) -> None:
    """Run the toy of `instrument`, if it has one. Raises SelfCheckError."""
    if instrument in _MODULES:
        importlib.import_module(_MODULES[instrument], __package__).self_check(device, roots)


def toy(device: str) -> torch.Tensor:
    """Return the tensor 1, 2, 3 on `device`."""
    values = torch.tensor([1.0, 2.0, 3.0])
    if device == "simulated":
        return to_simulated(values)
    return values.to("cuda") if device == "cuda" else values


def expect(instrument: str, read: Any, expected: Any, of_toy: str) -> None:
    """Raise SelfCheckError unless the instrument read what was expected."""
    if read != expected:
        raise SelfCheckError("the {} reads {} for {}, expected {}".format(instrument, read, of_toy, expected))


def need_device(device: str, devices: Sequence[str], wanted: str) -> None:
    """Raise SelfCheckError if the instrument cannot work on `device`."""
    if device not in devices:
        raise SelfCheckError("{}: not available on the device '{}'".format(wanted, device))


def self_check(device: str, roots: SourceRoots) -> None:
    """Check that the sum of two tensors on two devices raises."""
    need_device(device, ("simulated", "cuda"), "two devices")
    host, on_toy_device, refused = toy("cpu"), toy(device), 0
    with on_device(device):
        try:
            on_toy_device + host
        except RuntimeError as error:
            refused = int("same device" in str(error))
    expect("pair of devices", refused, 1, "one sum over both")
