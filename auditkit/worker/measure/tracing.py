"""Find the line where a value goes wrong: the first operator whose output fits a description.

The functions see every operator of a call with its inputs and outputs on the CPU; for the simulated device they see the
values inside the simulation.
"""

import contextlib
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves, map_leaves
from ..simulated.device import on_device
from ..simulated.tensor import EachOperator, Run, to_host

Description = Callable[[List[torch.Tensor], List[torch.Tensor]], bool]


def _first(call: Callable[[], Any], is_to_blame: Run, device: str, roots: SourceRoots) -> Optional[Site]:
    """Return the checkout's line of the first operator for which `is_to_blame(func, args, kwargs)` is true.

    `is_to_blame` runs the operator and returns its result and the verdict.
    """
    found: List[Site] = []

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        if found:
            return func(*args, **kwargs)
        result, is_blamed = is_to_blame(func, args, kwargs)
        site = roots.innermost(sys._getframe(1)) if is_blamed else None
        found.extend([site] if site is not None else [])
        return result

    with on_device(device), EachOperator(run), contextlib.suppress(Exception):
        call()
    return found[0] if found else None


def first_operator(
    call: Callable[[], Any], description: Description, device: str, roots: SourceRoots
) -> Optional[Site]:
    """Return the checkout's line of the first operator for which `description(inputs, outputs)` is true."""

    def is_to_blame(func: Any, args: Any, kwargs: Any) -> Tuple[Any, bool]:
        inputs = _dense((args, kwargs))
        if func._schema.is_mutable:  # the operator changes its inputs
            inputs = [tensor.clone() for tensor in inputs]
        result = func(*args, **kwargs)
        outputs = _dense(result)
        return result, bool(outputs) and description(inputs, outputs)

    return _first(call, is_to_blame, device, roots)


def first_difference(
    call: Callable[[], Any], other: Callable[[], Any], device: str, roots: SourceRoots
) -> Optional[Site]:
    """Return the checkout's line of the first operator whose output elements differ between `call` and `other`.

    Both calls run the same code on the same values in another form. Shapes may differ, but not the order of elements.
    """
    recorded = []
    for each in (call, other):
        outputs: List[Tuple[Optional[Site], torch.Tensor]] = []

        def run(func: Any, args: Any, kwargs: Any, outputs: Any = outputs) -> Any:
            result = func(*args, **kwargs)
            for tensor in _dense(result):
                if tensor.layout is torch.strided:
                    outputs.append((roots.innermost(sys._getframe(1)), tensor.detach().reshape(-1).clone()))
            return result

        with on_device(device), EachOperator(run), contextlib.suppress(Exception):
            each()
        recorded.append(outputs)
    for (site, values), (_, expected) in zip(*recorded, strict=False):
        same = values.dtype == expected.dtype and values.shape == expected.shape
        if not same or not torch.allclose(values, expected, rtol=1e-4, atol=0.0, equal_nan=True):
            return site
    return None


def first_imprecise(call: Callable[[], Any], tolerance: float, device: str, roots: SourceRoots) -> Optional[Site]:
    """Return the checkout's line of the first operator whose output is off by more than `tolerance` times its norm.

    Each floating tensor gets a float64 shadow: its value without rounding in earlier operators. A number that passed
    through Python counts as exact, so an earlier loss is not found again.
    """
    # Keep the tensors, too, so that no id is reused.
    shadows: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}

    def shadow_of(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            return torch.float64 if leaf.is_floating_point else leaf
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        if id(leaf) not in shadows:
            # Copy float64, too: an in-place operator must not write twice.
            shadows[id(leaf)] = (leaf, leaf.detach().double().clone())
        return shadows[id(leaf)][1]

    def is_to_blame(func: Any, args: Any, kwargs: Any) -> Tuple[Any, bool]:
        shadow_args, shadow_kwargs = map_leaves(shadow_of, (args, kwargs))
        result = func(*args, **kwargs)
        outputs = _floating(list_leaves(result))
        try:
            expected = _floating(list_leaves(func(*shadow_args, **shadow_kwargs)))
        except Exception:  # The operator does not accept float64.
            expected = []
        if len(expected) != len(outputs):
            expected = [tensor.double() for tensor in outputs]
        pairs = list(zip(outputs, expected, strict=True))
        shadows.update((id(tensor), (tensor, shadow)) for tensor, shadow in pairs)
        return result, any(_distance(tensor, shadow) > tolerance for tensor, shadow in pairs)

    return _first(call, is_to_blame, device, roots)


def _distance(tensor: torch.Tensor, shadow: torch.Tensor) -> float:
    """Return the 2-norm of the difference over the shadow's; 0 if either is empty or not finite."""
    if tensor.shape != shadow.shape or not tensor.numel():
        return 0.0
    true = float(torch.linalg.vector_norm(shadow))
    off = float(torch.linalg.vector_norm(tensor.double() - shadow))
    return off / true if true > 0 and off == off and true < float("inf") else 0.0


def _dense(tree: Any) -> List[torch.Tensor]:
    return [to_host(leaf) for leaf in list_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _floating(leaves: List[Any]) -> List[torch.Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def becomes_nonfinite(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
    """Return whether finite inputs give an infinite or NaN output: the value overflows here."""
    return not _all_finite(outputs) and _all_finite(inputs)


def _all_finite(tensors: List[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in _floating(tensors))


def becomes_zero(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
    """Return whether a non-zero input gives only zeros: the value underflows here."""
    if not _floating(outputs) or any(bool(tensor.count_nonzero()) for tensor in _floating(outputs)):
        return False
    return any(bool(tensor.count_nonzero()) for tensor in _floating(inputs))


def rounds_count(exact_count: int) -> Description:
    """Describe a float near the exact count that does not equal it."""

    def description(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
        values = [float(tensor) for tensor in _floating(outputs) if tensor.numel() == 1]
        return any(
            value != exact_count and abs(value - exact_count) <= 2 + exact_count * 1e-2 and value > 1
            for value in values
        )

    return description


def becomes_diagonal(count: int, kept: int) -> Description:
    """Describe `count` diagonal matrices of `kept` rows, which a vector of the diagonals could replace."""

    def description(inputs: List[torch.Tensor], outputs: List[torch.Tensor]) -> bool:
        for tensor in _floating(outputs) if inputs else ():  # `torch.empty` may return the memory of another matrix
            if tensor.shape == (count, kept, kept):
                diagonal = tensor.diagonal(dim1=1, dim2=2)
                if bool(diagonal.any()) and tensor.count_nonzero() == diagonal.count_nonzero():
                    return True
        return False

    return description
