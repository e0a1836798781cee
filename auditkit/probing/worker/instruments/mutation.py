"""What one call changes in what it was given: gradients, parameters, their graph, the caller's list.

The state before and after the call is compared, so that it does not matter by what means it was changed:
an in-place operator, `.data`, NumPy's view of the same memory, `p.grad = None`, `list.pop()`. The line is
found in a second call, with the state looked at after every line of the checkout. A dispatch mode would
not do: `detach_()` and `requires_grad_()` are no operators for it.
"""

import contextlib
import sys
from types import FrameType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from ..base.frames import Site, SourceRoots
from ..feeding.given import GroupInput
from ..simulated.tensor import to_host

_MEMORY = ("address", "shape", "strides", "dtype", "layout", "device")


class Mutation(NamedTuple):
    """`kind` says how `what` changed; the kinds are listed at `Snapshot.changes`."""

    kind: str
    what: str


class Snapshot:
    """The state of what was handed to a target, from now on; `leaves` are what its gradients were made from."""

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
        """Everything that is no longer as it was.

        Kinds: `values`; `removed`, `added` and `replaced` (a parameter's `.grad`); `requires_grad`, of a
        parameter too; `graph`; `memory` (address, shape, strides, dtype, device); `version` (written in place
        with the values that were there); `parameter` (anything else of a parameter); `list` (the caller's).
        """
        found = [*self._changed_slots(), *self._changed_lists()]
        for name, tensor in self._gradients.items():
            kind = _difference(self._states[name], _state(tensor))
            if kind:
                found.append(Mutation(kind, name))
        for name, parameter in self._parameters.items():
            kind = _difference(self._states[name], _state(parameter))
            if kind:
                found.append(Mutation(kind if kind == "requires_grad" else "parameter", name))
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
                found.append(Mutation("added" if before is None else "removed", name + ".grad"))
                continue
            kind = _difference(self._states[name + ".grad"], _state(after))
            found.append(Mutation("replaced" if kind in ("memory", "version", "") else kind, name + ".grad"))
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
        """Whether autograd still goes back through the gradients: they are `exp(leaf)`, their own derivative."""
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
    host = to_host(tensor)
    return {
        "requires_grad": tensor.requires_grad,
        "graph": tensor.grad_fn,
        "address": host.data_ptr(),
        "shape": tuple(tensor.shape),
        "strides": host.stride(),
        "dtype": tensor.dtype,
        "layout": tensor.layout,
        "device": str(tensor.device),
        "values": _values(tensor),
        "version": (tensor._version, host._version),
    }


def _values(tensor: torch.Tensor) -> bytes:
    """The elements bit by bit: NaN equals itself, and -0 differs from 0."""
    host = to_host(tensor.detach()).detach().cpu().contiguous()
    return bytes(host.reshape(-1).view(torch.uint8).tolist())


def _difference(before: Dict[str, Any], after: Dict[str, Any]) -> str:
    """The gravest kind of change between two states of one tensor, or ""."""
    if before["values"] != after["values"]:
        return "values"
    if before["graph"] is not after["graph"]:
        return "graph"
    if before["requires_grad"] != after["requires_grad"]:
        return "requires_grad"
    if any(before[name] != after[name] for name in _MEMORY):
        return "memory"
    return "version" if before["version"] != after["version"] else ""


def first_changing_line(call: Callable[[], Any], watched: Snapshot, roots: SourceRoots) -> Optional[Site]:
    """The checkout's line that was running when the first change appeared; None where nothing changes."""
    lines = _Lines(watched, roots)
    previous = sys.gettrace()
    sys.settrace(lines.trace)
    try:
        with contextlib.suppress(Exception):
            call()
    finally:
        sys.settrace(previous)
    lines.look()
    return lines.site


class _Lines:
    """A trace function that looks at the state before a line of the checkout runs: the line before did it."""

    def __init__(self, watched: Snapshot, roots: SourceRoots) -> None:
        self.site: Optional[Site] = None
        self._watched = watched
        self._roots = roots
        self._running: Optional[Site] = None

    def look(self) -> None:
        if self.site is None and self._running is not None and self._watched.changes():
            self.site = self._running

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.site is not None or self._roots.relative(frame.f_code.co_filename) is None:
            return None
        self.look()
        if event == "line":
            self._running = self._roots.innermost(frame)
        elif event == "return":
            self._running = self._roots.innermost(frame.f_back) or self._running
        return self.trace
