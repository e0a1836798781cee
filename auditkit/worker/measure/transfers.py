"""Count the bytes that leave the gradients' device, and the work that the host then does on them.

The simulated device reports every copy and read. On CUDA a dispatch mode sees copies and scalar reads, and a function
mode sees `.tolist()`. A tensor that was copied to the host is marked, and so are values computed from it, up to NumPy:
the instrument counts an array's bytes but does not see NumPy's computations.
"""

import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.utils.weak import WeakIdKeyDictionary

from ..answers.answers import leaves
from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..simulated.device import simulated_cuda
from ..simulated.operators import computes
from ..simulated.tensor import (
    BETWEEN_DEVICES,
    TO_DEVICE,
    TO_HOST,
    EachFunction,
    EachOperator,
    Observer,
    byte_count,
    is_simulated,
)
from .selfcheck import expect, need_device, toy

_DEEPEST = 5
_NUMBER_BYTES = 8
_DECOMPOSITIONS = ("_linalg_svd", "linalg_svd", "svd", "linalg_qr", "geqrf", "_linalg_eigh", "linalg_eig")


class Traffic(NamedTuple):
    """What one call moved, in bytes. `host_operator` is the one with the most elements from the device.

    `answer_bytes` are the result's own on the host. `site` is the line that moved most off the device.
    `decomposed_elements` is the largest matrix from the device that the host decomposed (an SVD, a QR).
    """

    to_host_bytes: int
    to_device_bytes: int
    between_devices_bytes: int
    answer_bytes: int
    host_operator: str
    host_elements: int
    site: Optional[Site]
    decomposed_elements: int = 0

    @property
    def off_device_bytes(self) -> int:
        """Bytes that left their device, without those of the result."""
        return max(0, self.to_host_bytes + self.between_devices_bytes - self.answer_bytes)


def count_transfers(call: Callable[[], Any], device: str, roots: SourceRoots) -> Traffic:
    """Run `call` once on `device` (`simulated` or `cuda`) and count what it moves."""
    tally = _Tally(roots)
    if device == "simulated":
        with simulated_cuda(tally):
            answer = call()
    else:
        with EachOperator(tally.run_on_cuda), EachFunction(tally.read_on_cuda):
            answer = call()
    moved, by_site = tally.bytes_by_direction, tally.bytes_by_site
    return Traffic(
        moved[TO_HOST],
        moved[TO_DEVICE],
        moved[BETWEEN_DEVICES],
        answer_bytes(answer),
        tally.host_operator,
        tally.host_elements,
        max(by_site, key=lambda site: (by_site[site], site is not None)) if by_site else None,
        tally.decomposed_elements,
    )


class _Tally(Observer):
    def __init__(self, roots: SourceRoots) -> None:
        self.roots = roots
        self.bytes_by_direction = {TO_HOST: 0, TO_DEVICE: 0, BETWEEN_DEVICES: 0}
        self.bytes_by_site: Dict[Optional[Site], int] = {}
        self.from_device = WeakIdKeyDictionary()
        self.host_operator = ""
        self.host_elements = self.decomposed_elements = 0
        self.is_counting = True

    def on_transfer(self, direction: str, copied_bytes: int, result: Optional[torch.Tensor]) -> None:
        if not self.is_counting:
            return
        self.bytes_by_direction[direction] += copied_bytes
        if direction != TO_DEVICE:
            site = self.roots.innermost(sys._getframe(1))
            self.bytes_by_site[site] = self.bytes_by_site.get(site, 0) + copied_bytes
        if direction == TO_HOST and result is not None:
            self.from_device[result] = True

    def on_host_operator(self, name: str, inputs: Sequence[Any], result: Any) -> None:
        tensors = [leaf for leaf in inputs if isinstance(leaf, torch.Tensor) and leaf in self.from_device]
        elements = max((tensor.numel() for tensor in tensors), default=0)
        if not elements:
            return
        for leaf in list_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.from_device[leaf] = True
        if name in _DECOMPOSITIONS:
            self.decomposed_elements = max(self.decomposed_elements, elements)
        if name and elements > self.host_elements:
            self.host_operator, self.host_elements = name, elements

    def read_on_cuda(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is not torch.Tensor.tolist or not args[0].is_cuda:
            return func(*args, **kwargs)
        self.on_transfer(TO_HOST, byte_count(args[0]), None)
        self.is_counting = False
        try:
            return func(*args, **kwargs)
        finally:
            self.is_counting = True

    def run_on_cuda(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense" and args[0].is_cuda:
            self.on_transfer(TO_HOST, args[0].element_size(), None)
        copied: Sequence[Any] = ()
        if name in ("_to_copy", "copy_"):
            copied = [(result, args[0]) if name == "_to_copy" else args[:2]]
        elif name == "_foreach_copy_":
            copied = list(zip(args[0], args[1], strict=False))
        for target, source in copied:
            if target.device != source.device:
                to_cuda = BETWEEN_DEVICES if source.is_cuda else TO_DEVICE
                self.on_transfer(to_cuda if target.is_cuda else TO_HOST, byte_count(source), target)
        inputs = list_leaves((args, kwargs))
        if not any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in inputs):
            self.on_host_operator(name if computes(func) else "", inputs, result)
        return result


def answer_bytes(answer: Any) -> int:
    """Return the bytes of every number, host tensor and array in a result."""
    return sum(_bytes_of(part) for part in parts_of(answer))


def parts_of(answer: Any) -> Iterator[Any]:
    """Yield every tensor, array and number in a result, including private attributes."""
    return (part for _, part in leaves(answer, _items, _DEEPEST))


def _bytes_of(part: Any) -> int:
    if isinstance(part, torch.Tensor):
        return 0 if part.is_cuda or is_simulated(part) else byte_count(part)
    if type(part).__module__ == "numpy":
        return int(getattr(part, "nbytes", 0))
    return _NUMBER_BYTES if isinstance(part, (int, float)) else 0


def _items(value: Any) -> List[Tuple[str, Any]]:
    """Return the items of a container or an object, including private attributes and slots; the names do not matter."""
    if isinstance(value, Mapping):
        value = list(value.values())
    elif not isinstance(value, (list, tuple, set, frozenset)):
        slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ()) if isinstance(name, str)]
        value = [] if isinstance(value, type) else [*getattr(value, "__dict__", {}).values(), *slots]
    return [("", item) for item in value]


def self_check(device: str, roots: SourceRoots) -> None:
    """Check the toy: it moves 12 bytes by `.cpu()` and 4 by `.item()`; the host then sums three elements."""
    need_device(device, ("simulated", "cuda"), "transfers")
    values = toy(device)
    moved = count_transfers(lambda: (values.cpu().sum(), values[0].item(), values.to(values.device))[2], device, roots)
    expect("byte counter", moved.to_host_bytes, 16, "a function that moves 16 bytes to the host")
    expect("host's work", moved.host_elements, 3, "a function that sums 3 elements on the host")
