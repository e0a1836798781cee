"""What a target holds of its gradients longer than a call: memory that grows, and the line that keeps it."""

import gc
import sys
import weakref
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..answers.answers import graph_tensors
from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..feed.repeated import RepeatedCall
from ..simulated.device import on_device
from ..simulated.tensor import EachOperator
from .memory import held_bytes


class AnswerMemory(NamedTuple):
    """`held` bytes that live as long as a result does, and the `paths` of its tensors that carry a graph."""

    held: int
    paths: List[str]


def kept_by_answer(repeated: RepeatedCall, make: Callable[[], Sequence[torch.Tensor]], device: str) -> AnswerMemory:
    """Return what the result of one call keeps alive after the gradients are dropped; one call warms up."""
    with on_device(device):
        repeated.call(make())
        repeated.forget()
    paths: List[str] = []
    results: List[Any] = []

    def hold_then_drop() -> None:
        if results:
            results.clear()
            return
        grads = make()
        results.append(repeated.call(grads))
        repeated.forget()
        # The gradients themselves may be returned: that they have a graph is not the target's doing.
        given = {id(grad) for grad in grads}
        paths.extend(path for path, tensor in graph_tensors(results[0]).items() if id(tensor) not in given)

    held = held_bytes(hold_then_drop, (1, 2), device)
    return AnswerMemory(held[1] - held[2], paths)


def where_retained(
    repeated: RepeatedCall,
    make: Callable[[], Sequence[torch.Tensor]],
    with_graph: bool,
    device: str,
    roots: SourceRoots,
) -> Optional[Site]:
    """Return the line that made the largest tensor that outlives its call; None if only the gradients do.

    With `with_graph` the result is kept, and only its tensors that carry a graph count.
    """
    made: List[Tuple[weakref.ref, Optional[Site]]] = []

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        site = roots.innermost(sys._getframe(1))
        made.extend((weakref.ref(leaf), site) for leaf in list_leaves(result) if isinstance(leaf, torch.Tensor))
        return result

    with on_device(device):
        repeated.call(make())
        grads = make()
        with EachOperator(run):
            answer = repeated.call(grads)
        given = {id(grad) for grad in grads}
        carrying = {id(tensor) for tensor in graph_tensors(answer).values()} if with_graph else given
        del grads
        if not with_graph:
            answer = None
        repeated.forget()
        gc.collect()
        alive = [(tensor, site) for reference, site in made for tensor in [reference()] if tensor is not None]
        found = [
            (tensor.numel(), site)
            for tensor, site in alive
            if id(tensor) not in given and (id(tensor) in carrying or not with_graph)
        ]
        return max(found, key=lambda entry: entry[0])[1] if found else None
