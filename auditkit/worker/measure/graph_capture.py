"""Capture a collecting step in a CUDA graph, replay it on new values, and read its result.

A graph contains kernels and the addresses they work on, but no Python code between them. So the gradients keep their
storages, new values are copied into them, and the replayed result must equal, bit by bit, that of an ordinary call on
the new values. The ordinary calls come first: a failed capture may leave the device unusable.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from ..answers.answers import flatten
from ..base.frames import SourceRoots, chain
from .selfcheck import expect, need_device, toy
from .transfers import parts_of

# torch's own example warms up three times on a side stream: lazy initialization must not be captured.
_WARM_UP_CALLS = 3


class Step(NamedTuple):
    """A collecting step as a call without arguments, and the step that finishes its result (None: there is none)."""

    collect: Callable[[], Any]
    finish: Optional[Callable[[Any], Any]]


class Replay(NamedTuple):
    """The fields of two ordinary calls and of the replayed graph on the new values, gradients included.

    `error` is the error of capture or replay; `replayed` is then None.
    """

    ordinary: Dict[str, Any]
    repeated: Dict[str, Any]
    replayed: Optional[Dict[str, Any]]
    error: Optional[BaseException]


def replay_graph(
    make_step: Callable[[], Step], grads: Sequence[torch.Tensor], others: Sequence[torch.Tensor]
) -> Replay:
    """Capture on `grads`, replay on the values of `others`. `make_step` prepares a new step on `grads`.

    Afterwards `grads` have the values of `others`. Raises the errors of an ordinary call.
    """
    first = [grad.clone() for grad in grads]
    ordinary, repeated = (_ordinary(make_step(), grads, others) for _ in range(2))
    _warm_up(make_step)
    _copy_into(grads, first)
    step, graph = make_step(), torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            held = step.collect()
        _copy_into(grads, others)
        graph.replay()
        torch.cuda.synchronize()
        return Replay(ordinary, repeated, _read(step, held, grads), None)
    except Exception as error:
        # The end of a broken capture raises again, from torch's own line.
        return Replay(ordinary, repeated, None, chain(error)[-1])


def holds_device_tensor(answer: Any) -> bool:
    """Return whether `answer` contains a tensor of a CUDA device."""
    return any(isinstance(part, torch.Tensor) and part.is_cuda for part in parts_of(answer))


def unequal_fields(first: Dict[str, Any], second: Dict[str, Any]) -> List[str]:
    """Return the fields that differ in any bit; NaN equals NaN."""
    paths = list(dict.fromkeys([*first, *second]))
    return [path for path in paths if repr(first.get(path)) != repr(second.get(path))]


def _ordinary(step: Step, grads: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> Dict[str, Any]:
    _copy_into(grads, values)
    return _read(step, step.collect(), grads)


def _read(step: Step, answer: Any, grads: Sequence[torch.Tensor]) -> Dict[str, Any]:
    """Return the result's fields, and every gradient after the step, since clipping changes them."""
    fields = flatten(step.finish(answer) if step.finish is not None else answer)
    fields.update(("gradient {}".format(i), grad.tolist()) for i, grad in enumerate(grads))
    return fields


def _warm_up(make_step: Callable[[], Step]) -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for step in [make_step() for _ in range(_WARM_UP_CALLS)]:
            step.collect()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def _copy_into(grads: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    with torch.no_grad():
        for grad, value in zip(grads, values, strict=False):
            grad.copy_(value)


def self_check(device: str, roots: SourceRoots) -> None:
    """Check that a doubled tensor follows new values when the graph is replayed."""
    need_device(device, ("cuda",), "a CUDA graph")
    values = toy(device)
    replay = replay_graph(lambda: Step(lambda: (values * 2).sum(), None), [values], [values + 1])
    expect("replayed graph", int((replay.replayed or {}).get("", 0)), 18, "twice the sum of 2, 3 and 4")
