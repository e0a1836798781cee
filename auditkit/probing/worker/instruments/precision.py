"""Find the line where a value loses its precision: every operator is repeated in float64 beside the target.

Each floating tensor gets a float64 shadow: what it would hold if no operator before had rounded. The first
operator whose output is further from its shadow than the tolerance is to blame.
"""

import contextlib
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves, map_leaves
from ..base.torch_internals import OperatorMode
from ..simulated.device import on_device


def first_imprecise(call: Callable[[], Any], tolerance: float, device: str, roots: SourceRoots) -> Optional[Site]:
    """The checkout's line of the first operator whose output is off by more than `tolerance` (a share of its norm).

    A number that went through Python comes back as exact: what it had lost before is not seen again.
    """
    watcher = _Shadows(tolerance, roots)
    with on_device(device), watcher, contextlib.suppress(Exception):
        call()
    return watcher.site


class _Shadows(OperatorMode):
    def __init__(self, tolerance: float, roots: SourceRoots) -> None:
        super().__init__()
        self.site: Optional[Site] = None
        self._tolerance = tolerance
        self._roots = roots
        # The tensors are kept too: an id must not be used twice.
        self._shadows: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.site is not None:
            return func(*args, **kwargs)
        shadow_args, shadow_kwargs = map_leaves(self._shadow_of, (args, kwargs))
        result = func(*args, **kwargs)
        outputs = _floating(result)
        try:
            expected = _floating(func(*shadow_args, **shadow_kwargs))
        except Exception:  # an operator that takes no float64, or asks for a dtype
            expected = []
        if len(expected) != len(outputs):
            expected = [tensor.double() for tensor in outputs]
        for tensor, shadow in zip(outputs, expected, strict=True):
            self._shadows[id(tensor)] = (tensor, shadow)
            if _distance(tensor, shadow) > self._tolerance:
                self.site = self._roots.innermost(sys._getframe(1))
        return result

    def _shadow_of(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            return torch.float64 if leaf.is_floating_point else leaf
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        if id(leaf) not in self._shadows:
            # A copy also of float64: an operator that writes in place must not write twice.
            self._shadows[id(leaf)] = (leaf, leaf.detach().double().clone())
        return self._shadows[id(leaf)][1]


def _floating(tree: Any) -> List[torch.Tensor]:
    return [leaf for leaf in list_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def _distance(tensor: torch.Tensor, shadow: torch.Tensor) -> float:
    """The 2-norm of the difference as a share of the shadow's; 0 where either is empty or not finite."""
    if tensor.shape != shadow.shape or not tensor.numel():
        return 0.0
    true = float(torch.linalg.vector_norm(shadow))
    off = float(torch.linalg.vector_norm(tensor.double() - shadow))
    return off / true if true > 0 and off == off and true < float("inf") else 0.0
