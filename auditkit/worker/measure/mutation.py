"""What one call changes in its inputs: gradients, parameters, their graph, the caller's list.

The instrument compares the state before and after the call, so that any means of change counts: an in-place operator,
`.data`, NumPy's view of the same memory, `p.grad = None`, `list.pop()`. A second call finds the line by the state after
every line of the checkout. A dispatch mode would not see `detach_()` and `requires_grad_()`, which are not operators.
"""

import contextlib
import sys
from types import FrameType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from ..base.frames import Site, SourceRoots
from ..feed.given import GroupInput
from ..simulated.device import on_device
from ..simulated.tensor import to_host
from .selfcheck import expect, toy


class Mutation(NamedTuple):
    """`kind` says how `what` changed; `Snapshot.changes` lists the kinds."""

    kind: str
    what: str


class Snapshot:
    """The current state of a target's inputs; `leaves` are what its gradients were computed from."""

    def __init__(self, given: Sequence[GroupInput], leaves: Sequence[torch.Tensor] = ()) -> None:
        self._given = list(given)
        self._leaves = list(leaves)
        self._listed = [list(group.listed or ()) for group in given]
        self._parameters = _named_parameters(given)
        self._grads = {name: parameter.grad for name, parameter in self._parameters.items()}
        self._gradients = {name + ".grad": grad for name, grad in self._grads.items() if grad is not None}
        for group in given:
            if group.module is None:
                self._gradients.update(("gradient {}".format(i), grad) for i, grad in enumerate(group.listed or ()))
        self._states = {name: _state(tensor) for name, tensor in {**self._parameters, **self._gradients}.items()}

    def changes(self) -> List[Mutation]:
        """Return all changes since then.

        Kinds: `values`; `removed`, `added` and `replaced` (a parameter's `.grad`); `requires_grad`, of a parameter,
        too; `graph`; `memory` (address, shape, strides, dtype, device); `version` (written in place with the same
        values); `parameter` (anything else of a parameter); `list` (the caller's).
        """
        found = [*self._changed_slots(), *self._changed_lists()]
        for name, tensor in [*self._gradients.items(), *self._parameters.items()]:
            kind = _difference(self._states[name], _state(tensor))
            if kind and name in self._parameters and kind != "requires_grad":
                kind = "parameter"
            found.extend([Mutation(kind, name)] if kind else [])
        if self._leaves and not found and not self._has_its_graph():
            found.append(Mutation("graph", "every gradient"))
        return found

    def _changed_slots(self) -> List[Mutation]:
        found = []
        for name, parameter in self._parameters.items():
            before, after = self._grads[name], parameter.grad
            if before is after:
                continue
            if before is None or after is None:
                kind = "added" if before is None else "removed"
            else:
                kind = _difference(self._states[name + ".grad"], _state(after))
                kind = "replaced" if kind in ("memory", "version", "") else kind
            found.append(Mutation(kind, name + ".grad"))
        return found

    def _changed_lists(self) -> List[Mutation]:
        found = []
        for group, listed in zip(self._given, self._listed, strict=False):
            if list(map(id, group.listed or ())) != list(map(id, listed)):
                found.append(Mutation("list", "the caller's list of {}".format(len(listed))))
        now = _named_parameters(self._given)
        if list(map(id, now.values())) != list(map(id, self._parameters.values())):
            found.append(Mutation("parameter", "the module's parameters"))
        return found

    def _has_its_graph(self) -> bool:
        """Return whether autograd still reaches the leaves: the gradients are `exp(leaf)`, their own derivative."""
        try:
            with torch.enable_grad():
                total = torch.stack([grad.sum() for grad in self._gradients.values()]).sum()
                derived = torch.autograd.grad(total, self._leaves, retain_graph=True)
        except RuntimeError:
            return False
        return all(torch.equal(grad, leaf.exp()) for grad, leaf in zip(derived, self._leaves, strict=False))


def _named_parameters(given: Sequence[GroupInput]) -> Dict[str, torch.Tensor]:
    found: Dict[str, torch.Tensor] = {}
    for index, group in enumerate(given):
        if group.module is not None:
            for name, parameter in group.module.named_parameters():
                found[name if index == 0 else "{} of group {}".format(name, index + 1)] = parameter
    return found


def _state(tensor: torch.Tensor) -> Dict[str, Any]:
    """Return the properties of a tensor by the kind of their change, most severe first."""
    host = to_host(tensor)
    elements = to_host(tensor.detach()).detach().cpu().contiguous()
    return {
        # Compare bits: NaN equals itself, and -0 differs from 0.
        "values": bytes(elements.reshape(-1).view(torch.uint8).tolist()),
        "graph": tensor.grad_fn,
        "requires_grad": tensor.requires_grad,
        "memory": (
            host.data_ptr(), tuple(tensor.shape), host.stride(), tensor.dtype, tensor.layout, str(tensor.device),
        ),
        "version": (tensor._version, host._version),
    }  # fmt: skip


def _difference(before: Dict[str, Any], after: Dict[str, Any]) -> str:
    """Return the most severe kind of change between two states of one tensor, or ""."""
    return next((kind for kind in before if before[kind] != after[kind]), "")


def first_changing_line(call: Callable[[], Any], watched: Snapshot, roots: SourceRoots) -> Optional[Site]:
    """Return the checkout's line at which the first change appeared; None if nothing changes."""
    running: Optional[Site] = None
    found: List[Site] = []

    def look() -> None:
        if not found and running is not None and watched.changes():
            found.append(running)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        """Compare the state before a line of the checkout runs: the previous line made the change."""
        nonlocal running
        if found or roots.relative(frame.f_code.co_filename) is None:
            return None
        look()
        if event == "line":
            running = roots.innermost(frame)
        elif event == "return":
            running = roots.innermost(frame.f_back) or running
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(Exception):
            call()
    finally:
        sys.settrace(previous)
    look()
    return found[0] if found else None


def self_check(device: str, roots: SourceRoots) -> None:
    """Check that the toy adds to one of three gradients."""
    grads = [toy(device) for _ in range(3)]
    with on_device(device):
        watched = Snapshot([GroupInput(None, grads)])
        grads[1].add_(1)
        expect("comparison of gradients", len(watched.changes()), 1, "a function that adds to one gradient")
