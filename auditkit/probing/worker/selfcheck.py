"""An instrument is checked before it is believed: known toys, in the same process, just before use."""

from typing import Any, Callable, Dict

import torch

from .frames import SourceRoots
from .launches import count_launches
from .memory import peak_bytes
from .simulated import to_simulated
from .syncs import count_syncs

_TEN_MIB = 10 << 20


class SelfCheckError(Exception):
    """The instrument did not read what it must; nothing it says can be believed."""


def check(instrument: str, device: str, roots: SourceRoots) -> None:
    """Run the toy of `instrument` (`syncs`, `launches`, `memory`). Raises SelfCheckError."""
    if instrument in _CHECKS:
        _CHECKS[instrument](device, roots)


def _toy(device: str) -> torch.Tensor:
    values = torch.tensor([1.0, 2.0, 3.0])
    if device == "simulated":
        return to_simulated(values)
    return values.to("cuda") if device == "cuda" else values


def _check_syncs(device: str, roots: SourceRoots) -> None:
    toy = _toy(device)

    def three_syncs() -> Any:
        copied = toy.cpu()
        return toy[0].item(), toy.tolist(), copied.tolist(), copied[1].item(), toy.to(toy.device)

    _expect("sync counter", count_syncs(three_syncs, device, roots).total, 3, "a function with 3 syncs")


def _check_launches(device: str, roots: SourceRoots) -> None:
    toy = _toy(device)

    def three_launches() -> Any:
        return (toy + 1).mul_(2).view(-1).sum()

    three_launches()
    _expect("launch counter", count_launches(three_launches, device, roots).total, 3, "a function with 3 launches")


def _check_memory(device: str, roots: SourceRoots) -> None:
    place = "cuda" if device == "cuda" else "cpu"

    def ten_mib() -> Any:
        return torch.empty(_TEN_MIB, dtype=torch.uint8, device=place)

    _expect("peak memory", peak_bytes(ten_mib, "cuda" if device == "cuda" else "cpu"), _TEN_MIB, "10 MiB")


def _expect(instrument: str, read: int, expected: int, toy: str) -> None:
    if read != expected:
        raise SelfCheckError("the {} reads {} for {}, expected {}".format(instrument, read, toy, expected))


_CHECKS: Dict[str, Callable[[str, SourceRoots], None]] = {
    "syncs": _check_syncs,
    "launches": _check_launches,
    "memory": _check_memory,
}
