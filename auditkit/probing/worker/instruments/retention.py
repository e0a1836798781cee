"""What a target holds of its gradients longer than a call: memory that grows, and the line that keeps it."""

import gc
import sys
import weakref
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ..answers.answers import graph_tensors
from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..base.torch_internals import OperatorMode
from ..feeding.repeated import RepeatedCall
from ..simulated.device import on_device
from .memory import bytes_until_dropped


class AnswerMemory(NamedTuple):
    """`held` bytes that live as long as an answer does, and the `paths` of its tensors that carry a graph."""

    held: int
    paths: List[str]


def kept_by_answer(repeated: RepeatedCall, make: Callable[[], Sequence[torch.Tensor]], device: str) -> AnswerMemory:
    """What the answer to one call keeps alive, the gradients being dropped; counted after one call to warm up."""
    with on_device(device):
        repeated.call(make())
        repeated.forget()
    paths: List[str] = []

    def call() -> Any:
        grads = make()
        answer = repeated.call(grads)
        repeated.forget()
        # The gradients themselves may be returned: that they have a graph is not the target's doing.
        given = {id(grad) for grad in grads}
        paths.extend(path for path, tensor in graph_tensors(answer).items() if id(tensor) not in given)
        return answer

    return AnswerMemory(bytes_until_dropped(call, device), paths)


def where_retained(
    repeated: RepeatedCall,
    make: Callable[[], Sequence[torch.Tensor]],
    with_graph: bool,
    device: str,
    roots: SourceRoots,
) -> Optional[Site]:
    """The line that made the largest tensor that outlives its call; None where only the gradients do, or nothing.

    `with_graph`: the answer is kept, and only its tensors that carry a graph are looked for.
    """
    with on_device(device):
        repeated.call(make())
        grads = make()
        watcher = _Outputs(roots)
        with watcher:
            answer = repeated.call(grads)
        given = {id(grad) for grad in grads}
        sought = {id(tensor) for tensor in graph_tensors(answer).values()} - given if with_graph else None
        del grads
        if sought is None:
            answer = None
        repeated.forget()
        gc.collect()
        return watcher.site_of_largest(sought, given)


class _Outputs(OperatorMode):
    """Remembers which line made each tensor, without keeping it alive."""

    def __init__(self, roots: SourceRoots) -> None:
        super().__init__()
        self._roots = roots
        self._made: List[Tuple[weakref.ref, Optional[Site]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        site = self._roots.innermost(sys._getframe(1))
        self._made.extend((weakref.ref(leaf), site) for leaf in list_leaves(result) if isinstance(leaf, torch.Tensor))
        return result

    def site_of_largest(self, sought: Optional[Set[int]], spared: Set[int]) -> Optional[Site]:
        alive = [(tensor, site) for reference, site in self._made for tensor in [reference()] if tensor is not None]
        found = [
            (tensor.numel(), site)
            for tensor, site in alive
            if (id(tensor) in sought if sought is not None else id(tensor) not in spared)
        ]
        return max(found, key=lambda entry: entry[0])[1] if found else None
