"""Find the line where a value goes wrong: the first operator whose output fits a description.

Every operator of the checkout's call is seen with its inputs and outputs on the CPU; on a simulated
device the same values are seen inside the simulation.
"""

import contextlib
import sys
from typing import Any, Callable, List, Optional, Tuple

import torch

from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..base.torch_internals import OperatorMode
from ..simulated.device import on_device

Description = Callable[[List[torch.Tensor], List[torch.Tensor]], bool]


def first_operator(
    call: Callable[[], Any], description: Description, device: str, roots: SourceRoots
) -> Optional[Site]:
    """The checkout's line of the first operator for which `description(inputs, outputs)` holds."""
    watcher = _Watcher(description, roots)
    with on_device(device):
        with watcher, contextlib.suppress(Exception):
            call()
    return watcher.site


class _Watcher(OperatorMode):
    def __init__(self, description: Description, roots: SourceRoots) -> None:
        super().__init__()
        self.description = description
        self.roots = roots
        self.site: Optional[Site] = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.site is None:
            inputs, outputs = _dense(list_leaves((args, kwargs or {}))), _dense(list_leaves(result))
            if outputs and self.description(inputs, outputs):
                self.site = self.roots.innermost(sys._getframe(1))
        return result


def first_difference(
    call: Callable[[], Any], other: Callable[[], Any], device: str, roots: SourceRoots
) -> Optional[Site]:
    """The checkout's line of the first operator that gives other elements in `call` than in `other`.

    The two are the same code on the same values in another form; shapes may differ, orders of elements not.
    """
    recorders = []
    for each in (call, other):
        recorder = _Recorder(roots)
        with on_device(device), recorder, contextlib.suppress(Exception):
            each()
        recorders.append(recorder.outputs)
    for (site, values), (_, expected) in zip(*recorders, strict=False):
        same = values.dtype == expected.dtype and values.shape == expected.shape
        if not same or not torch.allclose(values, expected, rtol=1e-4, atol=0.0, equal_nan=True):
            return site
    return None


class _Recorder(OperatorMode):
    """Keeps the elements of every dense output, in their logical order."""

    def __init__(self, roots: SourceRoots) -> None:
        super().__init__()
        self.roots = roots
        self.outputs: List[Tuple[Optional[Site], torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in _dense(list_leaves(result)):
            if tensor.layout is torch.strided:
                self.outputs.append((self.roots.innermost(sys._getframe(1)), tensor.detach().reshape(-1).clone()))
        return result


def _dense(leaves: List[Any]) -> List[torch.Tensor]:
    found = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [getattr(leaf, "host_values", leaf) for leaf in found]


def becomes_nonfinite(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
    """Finite in, infinite or NaN out: where an overflow happens."""
    return _floating(outputs) and not _all_finite(outputs) and _all_finite(inputs)


def becomes_zero(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
    """Something in, all zero out: where an underflow happens."""
    if not _floating(outputs) or not any(tensor.is_floating_point() for tensor in inputs):
        return False
    vanished = all(not bool(tensor.count_nonzero()) for tensor in outputs if tensor.is_floating_point())
    return vanished and any(bool(tensor.count_nonzero()) for tensor in inputs if tensor.is_floating_point())


def rounds_count(exact_count: int) -> Description:
    """A float that stands within 2 of the exact count without being it."""

    def description(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
        for tensor in outputs:
            if tensor.is_floating_point() and tensor.numel() == 1:
                value = float(tensor)
                if value != exact_count and abs(value - exact_count) <= 2 + exact_count * 1e-2 and value > 1:
                    return True
        return False

    return description


def becomes_diagonal(count: int, kept: int) -> Description:
    """`count` diagonal matrices of `kept` rows, where a vector of their diagonals would do."""

    def description(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
        for tensor in outputs if inputs else ():  # what `torch.empty` finds in its memory was made elsewhere
            if tensor.shape == (count, kept, kept) and tensor.is_floating_point():
                diagonal = tensor.diagonal(dim1=1, dim2=2)
                if bool(diagonal.any()) and tensor.count_nonzero() == diagonal.count_nonzero():
                    return True
        return False

    return description


def averages(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
    """Many floats in, one out: where a fraction is formed in floating point."""
    return _floating(outputs) and outputs[0].numel() == 1 and any(tensor.numel() > 1 << 20 for tensor in inputs)


def _floating(tensors: List[torch.Tensor]) -> bool:
    return any(tensor.is_floating_point() for tensor in tensors)


def _all_finite(tensors: List[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors if tensor.is_floating_point())
