"""Count the bytes that leave the gradients' device, and the work that the host then does on them.

`simulated`: every copy and read is told by the pretended device. `cuda`: a dispatch mode sees copies and
scalar reads, a function mode `.tolist()`. A tensor that was copied to the host is marked, and so is what
operators make from it, until an array of NumPy's takes over: what NumPy computes is not seen, the bytes are.
"""

import dataclasses
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from ..answers.answers import leaves
from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..base.torch_internals import OperatorMode
from ..simulated.device import simulated_cuda
from ..simulated.operators import computes
from ..simulated.tensor import BETWEEN_DEVICES, TO_DEVICE, TO_HOST, Observer, byte_count, is_simulated

_DEEPEST = 5
_NUMBER_BYTES = 8
_DECOMPOSITIONS = ("_linalg_svd", "linalg_svd", "svd", "linalg_qr", "geqrf", "_linalg_eigh", "linalg_eig")


class Traffic(NamedTuple):
    """What one call moved, in bytes. `host_operator` worked on the most of what came from the device.

    `answer_bytes`: what the answer itself holds on the host. `site`: the line that moved most off the device.
    `decomposed_elements`: of the largest thing from the device that the host decomposed (an SVD, a QR).
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
        """Bytes that left the device they were on, beyond those that the answer consists of."""
        return max(0, self.to_host_bytes + self.between_devices_bytes - self.answer_bytes)


def count_transfers(call: Callable[[], Any], device: str, roots: SourceRoots) -> Traffic:
    """Run `call` once on `device` (`simulated` or `cuda`) and count what it moves."""
    tally = _Tally(roots)
    if device == "simulated":
        with simulated_cuda(tally):
            answer = call()
    else:
        with _CudaOperators(tally), _CudaReads(tally):
            answer = call()
    return tally.moved(answer_bytes(answer))


class _Tally(Observer):
    def __init__(self, roots: SourceRoots) -> None:
        self.roots = roots
        self.bytes_by_direction = {TO_HOST: 0, TO_DEVICE: 0, BETWEEN_DEVICES: 0}
        self.bytes_by_site: Dict[Optional[Site], int] = {}
        self.from_device = WeakIdKeyDictionary()
        self.host_operator = ""
        self.host_elements = 0
        self.decomposed_elements = 0
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
        elements = max((leaf.numel() for leaf in inputs if self._is_from_device(leaf)), default=0)
        if not elements:
            return
        for leaf in list_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.from_device[leaf] = True
        if name in _DECOMPOSITIONS:
            self.decomposed_elements = max(self.decomposed_elements, elements)
        if name and elements > self.host_elements:
            self.host_operator, self.host_elements = name, elements

    def _is_from_device(self, leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and leaf in self.from_device

    def moved(self, held_bytes: int) -> Traffic:
        by_site = self.bytes_by_site
        return Traffic(
            self.bytes_by_direction[TO_HOST],
            self.bytes_by_direction[TO_DEVICE],
            self.bytes_by_direction[BETWEEN_DEVICES],
            held_bytes,
            self.host_operator,
            self.host_elements,
            max(by_site, key=lambda site: (by_site[site], site is not None)) if by_site else None,
            self.decomposed_elements,
        )


# --- a real CUDA device --------------------------------------------------------------------------


class _CudaReads(TorchFunctionMode):
    def __init__(self, tally: _Tally) -> None:
        super().__init__()
        self.tally = tally

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.tolist or not args[0].is_cuda:
            return func(*args, **(kwargs or {}))
        self.tally.on_transfer(TO_HOST, byte_count(args[0]), None)
        self.tally.is_counting = False
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.tally.is_counting = True


class _CudaOperators(OperatorMode):
    def __init__(self, tally: _Tally) -> None:
        super().__init__()
        self.tally = tally

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense" and args[0].is_cuda:
            self.tally.on_transfer(TO_HOST, args[0].element_size(), None)
        elif name == "_to_copy":
            self._copied(result, args[0])
        elif name == "copy_":
            self._copied(args[0], args[1])
        elif name == "_foreach_copy_":
            for target, source in zip(args[0], args[1], strict=False):
                self._copied(target, source)
        inputs = list_leaves((args, kwargs))
        if not any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in inputs):
            self.tally.on_host_operator(name if computes(func) else "", inputs, result)
        return result

    def _copied(self, target: torch.Tensor, source: torch.Tensor) -> None:
        if target.device == source.device:
            return
        direction = BETWEEN_DEVICES if target.is_cuda and source.is_cuda else TO_DEVICE if target.is_cuda else TO_HOST
        self.tally.on_transfer(direction, byte_count(source), target)


# --- the answer ----------------------------------------------------------------------------------


def answer_bytes(answer: Any) -> int:
    """The bytes of every number, host tensor and array that an answer holds."""
    return sum(_bytes_of(part) for part in parts_of(answer))


def parts_of(answer: Any) -> Iterator[Any]:
    """Every tensor, array and number in an answer, in its private attributes too."""
    return (part for _, part in leaves(answer, _items, _DEEPEST))


def _bytes_of(part: Any) -> int:
    if isinstance(part, torch.Tensor):
        return 0 if part.is_cuda or is_simulated(part) else byte_count(part)
    if type(part).__module__ == "numpy":
        return int(getattr(part, "nbytes", 0))
    return _NUMBER_BYTES if isinstance(part, (int, float)) else 0


def _items(value: Any) -> List[Tuple[str, Any]]:
    """What a container or an object holds, private attributes and slots too; nobody asks for its names."""
    return [("", item) for item in _held(value)]


def _held(value: Any) -> List[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, (str, bytes, type)) or value is None:
        return []
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ()) if isinstance(name, str)]
    return [*getattr(value, "__dict__", {}).values(), *slots]
